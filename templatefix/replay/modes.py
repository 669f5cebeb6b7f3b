"""The modes of a template: which request kwargs change what, found by trying them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from templatefix.chat.battery import PROBE, TOOLS
from templatefix.chat.conversation import Message, assistant_message
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Server
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused

#: ``mode`` changes the generation prompt, ``retention`` only what history shows of answers,
#: ``head`` what comes before history.
Effect = Literal["mode", "retention", "head"]

#: No more modes than this are swept; the rest is reported as not evaluated.
LIMIT = 16


@dataclass(frozen=True)
class Setting:
    """A kwarg's value and what it does. ``retains`` is whether it shows more of past answers."""

    name: str
    value: Any
    effect: Effect
    retains: bool = False


@dataclass(frozen=True)
class Modes:
    """The kwargs to sweep, the default first; the settings found; what was left out.

    ``retaining`` holds, for every entry of ``sweep``, whether a retention kwarg is on in it.
    """

    sweep: tuple[Mapping[str, Any], ...]
    settings: tuple[Setting, ...]
    left_out: tuple[Mapping[str, Any], ...] = ()


def discover(server: Server, candidates: Iterable[tuple[str, Sequence[Any]]]) -> Modes:
    """Try every candidate value on one conversation and sweep those that matter."""
    settings = [
        setting
        for name, values in candidates
        for value in values
        if (setting := _classify(server, name, value)) is not None
    ]
    modes: list[dict[str, Any]] = [{}]
    modes += [{s.name: s.value} for s in settings if s.effect == "mode"]
    modes += [{s.name: s.value} for s in settings if s.effect == "head"]
    keeping = [s for s in settings if s.effect == "retention" and s.retains]
    swept = modes + [{**mode, s.name: s.value} for s in keeping for mode in modes]
    return Modes(tuple(swept[:LIMIT]), tuple(settings), tuple(swept[LIMIT:]))


def _classify(server: Server, name: str, value: Any) -> Setting | None:
    """The effect of one kwarg value; None where it has none or cannot be rendered."""
    question, history = _probe_messages()
    kwargs = {name: value}
    try:
        pairs = [
            (server.prompt(question, tools, {}), server.prompt(question, tools, kwargs))
            for tools in (None, TOOLS)
        ]
        shown, now = server.prompt(history, None, {}), server.prompt(history, None, kwargs)
        bare = server.prompt(question, None, {}, generation_prompt=False)
    except (Refused, Crashed, Unpresentable):
        return None
    for default, changed in pairs[:1]:
        if default != changed:
            return Setting(name, value, _where(default, changed, bare))
    if shown != now:
        return Setting(name, value, "retention", retains=len(now) > len(shown))
    default, changed = pairs[1]
    return Setting(name, value, "head") if default != changed else None


def _where(default: str, changed: str, bare: str) -> Effect:
    """Whether a prompt changed in its generation prompt or before it."""
    head = common_prefix(default, bare)
    return "mode" if common_prefix(default, changed) >= head else "head"


def _probe_messages() -> tuple[list[Message], list[Message]]:
    history: list[Message] = []
    for turn in PROBE.turns[:2]:
        history.extend(turn.new_messages)
        assert turn.answer is not None
        history.append(assistant_message(turn.answer))
    question = history[:2]
    return question, [*history, *PROBE.turns[2].new_messages]
