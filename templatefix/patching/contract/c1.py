"""C1: conversations without an answer render byte for byte as before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from templatefix.chat.present import Unpresentable
from templatefix.patching.contract.exam import Exam, Walk, difference, given, outcome
from templatefix.patching.contract.openings import Input, openings
from templatefix.patching.contract.proof import ClauseResult, Violation
from templatefix.render import PINNED_CLOCK

#: A year, a month and some hours on: every part of a date is another one.
_LATER = PINNED_CLOCK + timedelta(days=401, hours=7, minutes=11)


def check(exam: Exam) -> ClauseResult:
    """Every opening in every mode, modes that only retain included.

    What one of the two does not render is C4's business.
    """
    tried = 0
    for opening in _openings(exam):
        tried += 1
        message = _compare(exam, opening)
        if message is not None:
            conversation = given(opening.messages, opening.tools, opening.kwargs)
            return ClauseResult("C1", False, tried, Violation("C1", message, conversation))
    return ClauseResult("C1", True, tried)


def judge(exam: Exam, walk: Walk) -> str | None:
    """The same for the first prompt of a conversation."""
    request = walk.before.requests[0]
    return _compare(exam, Input(request.messages, walk.before.tools, request.kwargs))


def _openings(exam: Exam) -> Iterator[Input]:
    for kwargs in exam.bench.modes.sweep:
        yield from openings(kwargs)


def _compare(exam: Exam, opening: Input) -> str | None:
    clocks = [PINNED_CLOCK]
    if any("strftime_now" in text for text in (exam.text, exam.bench.subject.template.text)):
        clocks.append(_LATER)
    for clock in clocks:
        found = []
        for server in (exam.original, exam.server):
            try:
                shown = outcome(
                    lambda server=server, clock=clock: server.prompt(  # type: ignore[misc]
                        opening.messages,
                        opening.tools,
                        opening.kwargs,
                        generation_prompt=opening.generation_prompt,
                        clock=clock,
                    )
                )
            except Unpresentable:
                return None
            found.append(shown.text)
        before, after = found
        if before is not None and after is not None and before != after:
            return f"a conversation without answers changes: {difference(before, after)}"
    return None
