"""The last of the contract: generated conversations, each in every form and for both clients.

Nothing is read or stored between runs; the same seed tries the same conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, Literal

from templatefix.chat.conversation import Scenario
from templatefix.checking.search import make_home, markers_of
from templatefix.checking.subject import refuses_system
from templatefix.dialect.parsers import stripped
from templatefix.patching.bench import Bench, Kwargs
from templatefix.patching.contract import c1, c2, c3, c5, c8
from templatefix.patching.contract.c4 import stumbled
from templatefix.patching.contract.exam import Exam, Stumble, Walk, replayed
from templatefix.patching.contract.proof import Violation
from templatefix.patching.contract.shrink import shrink
from templatefix.replay.run import Plan
from templatefix.syntax import reads_attribute

#: How an answer comes back: as the parsers return it, without outer whitespace (in an answer
#: that was written without), or without its reasoning.
Form = Literal["raw", "stripped", "dropping"]
FORMS: tuple[Form, ...] = ("raw", "stripped", "dropping")

Judge = Callable[[Exam, Walk], str | None]
_JUDGES: Mapping[str, Judge] = {
    "C1": c1.judge,
    "C2": c2.judge,
    "C3": c3.judge,
    "C5": c5.judge,
    "C8": c8.judge,
}
#: The clauses that generated conversations are tried on.
SEARCHED = ("C4", *_JUDGES)


def _violation(exam: Exam, plan: Plan, clause: str | None = None) -> Violation | None:
    """The first clause that a conversation breaks, or whether it breaks a given one."""
    walk = exam.walk(plan) or exam.walk(_thinking(plan))
    if isinstance(walk, Stumble):
        return stumbled(walk) if clause in (None, "C4") else None
    if walk is None:
        return None
    for name, judge in _JUDGES.items():
        message = judge(exam, walk) if clause in (None, name) else None
        if message is not None:
            return Violation(name, message, replayed(walk.after))
    return None


def smaller(
    exam: Exam, scenario: Scenario, kwargs: Kwargs, broken: Violation, form: Form = "raw"
) -> Violation:
    """What the smallest conversation breaks that breaks the same clause in the same way."""
    smallest = broken

    def shows(scenario: Scenario) -> bool:
        nonlocal smallest
        hit = _violation(exam, _plan(scenario, kwargs, form), broken.clause)
        smallest = hit or smallest
        return hit is not None

    shrink(scenario, shows)
    return smallest


def _plan(scenario: Scenario, kwargs: Kwargs, form: Form) -> Plan:
    if form == "dropping":
        return Plan(scenario, kwargs, "reasoning-dropping", core=False)
    if form == "raw":
        return Plan(scenario, kwargs, core=False)
    turns = tuple(
        replace(turn, answer=stripped(turn.answer)) if turn.answer else turn
        for turn in scenario.turns
    )
    return Plan(replace(scenario, turns=turns), kwargs, replay="stripped", core=False)


def _thinking(plan: Plan) -> Plan:
    """The same with reasoning in every answer: some modes do not answer without."""
    turns = tuple(
        replace(turn, answer=turn.answer._replace(reasoning=f"r{i}"))
        if turn.answer and not turn.answer.reasoning
        else turn
        for i, turn in enumerate(plan.scenario.turns)
    )
    return replace(plan, scenario=replace(plan.scenario, turns=turns))


def search(exam: Exam, max_examples: int, seed: int) -> tuple[Violation | None, int]:
    """A small conversation that breaks a clause, and how many were tried.

    Each is judged in every form in which its answers come back.
    """
    conversations = drawn(exam.bench, max_examples, seed)
    for number, (scenario, kwargs) in enumerate(conversations, start=1):
        for form in FORMS:
            broken = _violation(exam, _plan(scenario, kwargs, form))
            if broken is not None:
                return smaller(exam, scenario, kwargs, broken, form), number
    return None, len(conversations)


def drawn(bench: Bench, max_examples: int, seed: int) -> Sequence[tuple[Scenario, Kwargs]]:
    """Distinct generated conversations, each with one of the modes.

    They are the same for every candidate, and drawn once.
    """
    known = bench.memory.drawn.get((max_examples, seed))
    if known is None:
        distinct = {repr(each): each for each in _draw(bench, max_examples, seed)}
        known = bench.memory.drawn[max_examples, seed] = tuple(distinct.values())
    return known


def _draw(bench: Bench, max_examples: int, seed: int) -> list[tuple[Scenario, Kwargs]]:
    make_home()
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import NoSuchExample

    from templatefix.chat.strategies import conversations

    subject = bench.subject
    one: st.SearchStrategy[Any] = st.tuples(
        conversations(
            markers_of(subject),
            tools=reads_attribute(subject.parsed, "tool_calls"),
            system=not refuses_system(subject.server),
        ),
        st.sampled_from(bench.kwargs),
    )
    found: list[tuple[Scenario, Kwargs]] = []

    def look(each: tuple[Scenario, Kwargs]) -> bool:
        found.append(each)
        return False

    with suppress(NoSuchExample):
        find(
            one,
            look,
            settings=settings(
                max_examples=max_examples,
                database=None,
                deadline=None,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            ),
            random=Random(seed),
        )
    return found
