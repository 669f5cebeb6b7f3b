"""The plan of runs: which scenarios are replayed in which modes, by which clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from templatefix.chat.battery import BATTERY, PROBE
from templatefix.chat.conversation import Message, Scenario
from templatefix.replay.modes import Modes
from templatefix.replay.run import Plan

#: The scenarios in which clients and replay forms are varied.
_VARIED = ("reasoning-chat", "tool-rounds")


def plan(modes: Modes, scenarios: Iterable[Scenario] = BATTERY) -> Iterator[Plan]:
    """Every run of a check, the likeliest to be evaluated first.

    Core scenarios run in every mode. Edge scenarios, clients that drop reasoning and other
    replay forms run in the default and in the modes proper.
    """
    scenarios = list(scenarios)
    effects = {(s.name, _key(s.value)): s.effect for s in modes.settings}
    proper = [
        kwargs
        for kwargs in modes.sweep
        if all(effects[name, _key(value)] == "mode" for name, value in kwargs.items())
    ]
    for kwargs in modes.sweep:
        yield from (Plan(scenario, kwargs) for scenario in scenarios if scenario.core)
    for kwargs in proper:
        for scenario in scenarios:
            if not scenario.core:
                yield Plan(scenario, kwargs, core=False)
            elif scenario.name in _VARIED:
                yield Plan(scenario, kwargs, client="reasoning-dropping", core=False)
                yield Plan(scenario, kwargs, replay="verbatim", core=False)
                yield Plan(scenario, kwargs, replay="stripped", core=False)
                yield Plan(scenario, kwargs, replay="inline", core=False)
    if {} in proper:  # else the user has fixed the mode
        yield from _switches(proper)


def _switches(proper: list[Mapping[str, Any]]) -> Iterator[Plan]:
    """A chat that leaves the default mode for another in every second request."""
    for i, other in enumerate(kwargs for kwargs in proper if kwargs):
        turns = tuple(
            replace(turn, kwargs=other if i % 2 else {}) for i, turn in enumerate(PROBE.turns)
        )
        name = ",".join(sorted(other))
        scenario = Scenario(
            "mode-switch", turns, core=False, reasoning="if-thinking", variant=f"{name}-{i}"
        )
        yield Plan(scenario, {}, core=False)


def without_system(scenario: Scenario) -> Scenario:
    """The scenario as a client of a template that refuses system messages sends it."""

    def kept(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(m for m in messages if m.get("role") != "system")

    turns = tuple(replace(turn, new_messages=kept(turn.new_messages)) for turn in scenario.turns)
    return replace(scenario, turns=turns)


def _key(value: Any) -> tuple[str, str]:
    """Tells True from 1, whatever a request may hold."""
    return type(value).__name__, repr(value)
