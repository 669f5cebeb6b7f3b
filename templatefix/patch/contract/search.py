"""The last of the contract: generated conversations, in every mode, form and client.

Nothing is read or stored between runs; the same seed tries the same conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from templatefix.chat.conversation import Scenario
from templatefix.check.search import TRIES, _make_home, _markers
from templatefix.check.subject import refuses_system
from templatefix.dialect.parsers import stripped
from templatefix.patch.bench import Kwargs
from templatefix.patch.contract import c1, c2, c3, c4, c5, c8
from templatefix.patch.contract.exam import Exam, Stumble, Walk, replayed
from templatefix.patch.contract.proof import Violation
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


@dataclass
class _Hunt:
    """The conversations tried. Once a clause is broken, only that clause is sought."""

    exam: Exam
    budget: int
    tried: dict[str, Violation | None] = field(default_factory=dict)
    clause: str | None = None

    def look(self, scenario: Scenario, kwargs: Kwargs, form: Form) -> Violation | None:
        key = repr((scenario.turns, kwargs, form))
        if key not in self.tried:
            if len(self.tried) >= self.budget:
                return None
            found = self._try(_plan(scenario, kwargs, form))
            if found is not None:
                self.clause = found.clause
            self.tried[key] = found
        return self.tried[key]

    def _try(self, plan: Plan) -> Violation | None:
        walk = self.exam.walk(plan)
        if isinstance(walk, Stumble):
            return c4.stumbled(walk) if self.clause in (None, "C4") else None
        if walk is None:
            return None
        for clause, judge in _JUDGES.items():
            if self.clause not in (None, clause):
                continue
            message = judge(self.exam, walk)
            if message is not None:
                return Violation(clause, message, replayed(walk.after))
        return None


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


def search(exam: Exam, max_examples: int, seed: int) -> tuple[Violation | None, int]:
    """The smallest conversation found that breaks a clause, and how many were tried."""
    _make_home()
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import NoSuchExample

    from templatefix.chat.strategies import conversations

    subject = exam.bench.subject
    hunt = _Hunt(exam, max_examples * TRIES)
    drawn: st.SearchStrategy[Any] = st.tuples(
        conversations(
            _markers(subject),
            tools=reads_attribute(subject.parsed, "tool_calls"),
            system=not refuses_system(subject.server),
        ),
        st.sampled_from(exam.bench.kwargs),
        st.sampled_from(FORMS),
    )
    try:
        found = find(
            drawn,
            lambda one: hunt.look(*one) is not None,
            settings=settings(
                max_examples=max_examples,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            ),
            random=Random(seed),
        )
    except NoSuchExample:
        return None, len(hunt.tried)
    return hunt.look(*found), len(hunt.tried)
