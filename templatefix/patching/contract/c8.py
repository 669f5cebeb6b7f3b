"""C8: under ``lossless`` nobody is shown reasoning that the original leaves out.

A client that drops reasoning sees in thinking modes exactly what it saw before. One that replays it
finds it printed only where the original prints it, in core conversations: elsewhere a user may have
typed what the original takes for a tool's result, and shows the reasoning before it for a while.
"""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.dialect.thinking import Tags
from templatefix.patching.contract.exam import Exam, Walk, difference, replayed
from templatefix.patching.contract.proof import ClauseResult, Violation
from templatefix.replay.run import Request


def check(exam: Exam) -> ClauseResult:
    """The core conversations of either client, and all of one that drops reasoning."""
    tried = 0
    for walk in exam.walks:
        tried += walk.plan.core or walk.plan.client != "faithful"
        message = judge(exam, walk)
        if message is not None:
            return ClauseResult("C8", False, tried, Violation("C8", message, replayed(walk.after)))
    return ClauseResult("C8", True, tried)


def judge(exam: Exam, walk: Walk) -> str | None:
    """What a client newly sees; never anything under another policy."""
    if exam.bench.policy != "lossless":
        return None
    if walk.plan.client == "faithful":
        return _brought_back(walk) if walk.plan.core else None
    for number, (before, after) in enumerate(walk.steps, start=1):
        if before.prompt != after.prompt and not _repaired(exam, walk, number):
            words = difference(before.prompt, after.prompt)
            return f"request {number} of {walk.plan.id} changes: {words}"
        if not (before.answer and (before.answer.reasoning or "").strip()):
            # From here on it looks like a mode that does not think.
            return None
    return None


def _brought_back(walk: Walk) -> str | None:
    """Reasoning that was replayed, and that only the candidate prints."""
    for number, (before, after) in enumerate(walk.steps, start=1):
        for request in walk.before.requests[: number - 1]:
            answer = request.answer
            reasoning = (answer.reasoning or "").strip() if answer is not None else ""
            if reasoning in after.prompt and reasoning not in before.prompt:
                words = f"prints reasoning that the original leaves out: {reasoning[:60]!r}"
                return f"request {number} of {walk.plan.id} {words}"
    return None


def _repaired(exam: Exam, walk: Walk, number: int) -> bool:
    """Whether a prompt differs only by the repair of what has nothing to do with reasoning.

    Either the original did not print the rest of some answer as it was generated and the
    candidate does, or the original's head moves. No thinking tag may come or go with it.
    """
    before, after = walk.before.requests[number - 1], walk.after.requests[number - 1]
    earlier = walk.before.requests[: number - 1]
    if any(_tags(each) and _count(each, before) != _count(each, after) for each in earlier):
        return False
    rests = list(_rests(earlier))
    if _holds(after.prompt, rests) and not _holds(before.prompt, rests):
        return True
    first = walk.before.requests[0]
    head = first.prompt[: exam.frame_end(first, walk.before.tools, exam.original)]
    return not before.prompt.startswith(head)


def _tags(request: Request) -> Tags | None:
    return request.completion.tags if request.completion else None


def _count(request: Request, other: Request) -> tuple[int, int]:
    """How often the tags of a request's format stand in another's prompt."""
    tags = _tags(request)
    return (other.prompt.count(tags.open), other.prompt.count(tags.close)) if tags else (0, 0)


def _rests(requests: tuple[Request, ...]) -> Iterator[str]:
    """What was generated after the reasoning: content and calls, with the stop token."""
    for request in requests:
        written = request.completion.written if request.completion else None
        begin = written and (written.content or written.calls)
        if written and begin:
            yield written.text[begin[0] : written.stop[1]]


def _holds(prompt: str, parts: list[str]) -> bool:
    """Whether a prompt holds all parts in their order."""
    at = 0
    for part in parts:
        found = prompt.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
