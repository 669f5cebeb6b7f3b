"""C7: the cost of a rendering grows with its turns, and is about what it was.

What is counted are executed outputs and loop bodies: the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from templatefix.chat.conversation import Message
from templatefix.chat.server import Tools
from templatefix.patching.bench import Kwargs
from templatefix.patching.contract.exam import Exam, given
from templatefix.patching.contract.proof import ClauseResult, Violation
from templatefix.patching.long_chat import MANY, long_chat, steps, tools_shown

#: Turns of the chat that the long one is compared with.
FEW = MANY // 2
#: How much more twice the turns may cost, and how much more the candidate than the original.
GROWTH, PRICE = 2.1, 1.1
#: What has to be printed again takes outputs: so many for each answer are never too much, though
#: in a small template they are more than a tenth of everything.
RESTORED = 2


def check(exam: Exam) -> ClauseResult:
    """A long chat in which every second turn calls a tool, in every mode proper, and one without.

    A template whose own cost grows faster than its turns is held to that cost only.
    """
    tried = 0
    for kwargs in exam.bench.kwargs:
        for tools in tools_shown(exam.bench, kwargs):
            many = long_chat(MANY, tools)
            was = steps(exam.bench.subject.template.text, exam.bench, many, tools, kwargs)
            now = steps(exam.text, exam.bench, many, tools, kwargs)
            if was is None or now is None:
                continue
            tried += 1
            few = long_chat(FEW, tools)
            message = _excess(exam, few, tools, kwargs, was, now)
            if message is not None:
                conversation = given(many, tools, kwargs)
                return ClauseResult("C7", False, tried, Violation("C7", message, conversation))
    return ClauseResult("C7", True, tried)


def _excess(
    exam: Exam, few: Sequence[Message], tools: Tools, kwargs: Kwargs, was: int, now: int
) -> str | None:
    """What is too much about the cost ``now`` of many turns, which ``was`` the original's."""
    half = steps(exam.text, exam.bench, few, tools, kwargs)
    if half is not None and now > GROWTH * half:
        before = steps(exam.bench.subject.template.text, exam.bench, few, tools, kwargs)
        if before is None or was <= GROWTH * before:
            return f"{FEW} turns take {half} steps, {MANY} turns {now}"
    if not exam.fold and now > max(PRICE * was, was + RESTORED * MANY):
        return f"{MANY} turns took {was} steps and now take {now}"
    return None
