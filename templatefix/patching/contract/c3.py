"""C3: what is not an answer is printed as the original printed it when it was new.

A *frame* is what a prompt holds between two answers: the new messages of a request with the
markup around them. It is compared with the end of the original's prompt for the same request,
and has to stay what it was in every later prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message
from templatefix.dialect.layout import Written
from templatefix.findings.evidence import message_texts
from templatefix.findings.printed import squeezed
from templatefix.patching.contract.exam import Exam, Walk, difference, replayed
from templatefix.patching.contract.proof import ClauseResult, Violation
from templatefix.prefix import common_prefix
from templatefix.replay.run import Comparison

#: Characters by which the end of an answer is found, and that may close it.
_MARK, _CLOSING = 12, 40

PINNED = (
    "the original moves what comes before the conversation with the last user message; the "
    "candidate leaves it where the first prompt had it"
)
MOVED = (
    "the original prints the text of an answer behind the messages that follow it; the candidate "
    "leaves it where the model wrote it"
)


def check(exam: Exam) -> ClauseResult:
    """Every walk; the notes say what the original moves, and the candidate leaves in its place."""
    tried = 0
    notes: dict[str, None] = {}
    for walk in exam.walks:
        tried += 1
        message, kept = _judge(exam, walk)
        notes.update(kept)
        if message is not None:
            violation = Violation("C3", message, replayed(walk.after))
            return ClauseResult("C3", False, tried, violation, tuple(notes))
    return ClauseResult("C3", True, tried, None, tuple(notes))


def judge(exam: Exam, walk: Walk) -> str | None:
    """A message that is printed otherwise than by the original, or otherwise than at first."""
    return _judge(exam, walk)[0]


def _judge(exam: Exam, walk: Walk) -> tuple[str | None, dict[str, None]]:
    """The fault of a walk, and notes on what was left in its place on the way."""
    tools = walk.before.tools
    first = walk.before.requests[0]
    head = first.prompt[: exam.frame_end(first, tools, exam.original)]
    frames: list[str] = []
    kept: dict[str, None] = {}
    for number, (before, after) in enumerate(walk.steps, start=1):
        # What the original itself moves is for C2 to judge, where it is in scope.
        changed = _missing(frames, after.prompt) - _missing(frames, before.prompt)
        if changed:
            words = f"no longer has {frames[min(changed)][-60:]!r}"
            return f"request {number} of {walk.plan.id} {words}", kept
        start = _start(walk, walk.after.comparisons[number - 2]) if frames else 0
        end = max(start, exam.frame_end(after, tools, exam.server))
        new, frame, tail = after.prompt[start:], after.prompt[start:end], after.prompt[end:]
        if frames and _moves_answer(walk.after.comparisons[number - 2], before.prompt, frame, tail):
            kept[MOVED] = None
        elif frames and not before.prompt.endswith(new):
            if before.prompt.startswith(head):
                words = _otherwise(before.prompt, new)
                return f"request {number} of {walk.plan.id} is framed otherwise: {words}", kept
            lost = _unprinted(_news(walk.after.comparisons[number - 2]), before.prompt, new)
            if lost is not None:
                return f"request {number} of {walk.plan.id} lacks {lost!r} of the head", kept
            kept[PINNED] = None
        elif frames:
            wrong = _ending(walk, number - 2, start, new)
            if wrong is not None:
                return f"request {number} of {walk.plan.id} {wrong}", kept
        frames.append(frame)
    return None, kept


def _missing(frames: Sequence[str], prompt: str) -> set[int]:
    """The indexes of frames that a prompt does not hold in their order."""
    missing = set()
    at = 0
    for i, frame in enumerate(frames):
        found = prompt.find(frame, at)
        if found < 0:
            missing.add(i)
        else:
            at = found + len(frame)
    return missing


def _start(walk: Walk, comparison: Comparison) -> int:
    """Where a prompt goes on after the stream before it, in characters.

    Where it does not hold that stream, or the stream was cut short, where the texts of the new
    messages begin.
    """
    before, after = comparison.before, comparison.after
    written = before.completion.written if before.completion else None
    stop = written.stop[1] - written.stop[0] if written else 0
    if _is_finished(walk, comparison) and comparison.characters >= len(before.stream) - stop:
        return comparison.characters
    at = len(after.prompt)
    for message in reversed(_news(comparison)):
        for text in reversed(message_texts(message.get("content"))):
            found = after.prompt.rfind(text.strip(), 0, at)
            at = found if found >= 0 else at
    return at


def _ending(walk: Walk, index: int, start: int, new: str) -> str | None:
    """What is wrong with how an answer ends, in words; ``new`` begins at ``start``."""
    comparison = walk.after.comparisons[index]
    written = comparison.before.completion.written if comparison.before.completion else None
    if written is None or not _is_finished(walk, comparison):
        return None
    texts = (written.reasoning, written.content, written.calls)
    end = max((span[1] for span in texts if span), default=0)
    asked, followed = walk.before.requests[index : index + 2]
    old = followed.prompt.removesuffix(new)
    again = _closed_again(comparison, written, end, old, new)
    if again:
        return f"prints {again!r} again after an answer that ended with it"
    mark, now = written.text[max(0, end - _MARK) : end], comparison.after.prompt[:start]
    # What was said before the answer may end in the same words.
    old, now = (
        text[common_prefix(text, prompt) :]
        for text, prompt in ((old, asked.prompt), (now, comparison.before.prompt))
    )
    left = _left_open(comparison.before.answer, mark, old, now, new)
    return f"no longer prints {left!r} after an answer" if left else None


def _closed_again(
    comparison: Comparison, written: Written, end: int, original: str, new: str
) -> str:
    """What a model wrote behind the ``end`` of its texts, if the candidate prints it once more.

    That is, if it stands after the stream, with its stop token or without, and the original has no
    second one before what is new.
    """
    before = comparison.before
    missing = max(0, len(before.stream) - comparison.characters)
    if missing > written.stop[1] - written.stop[0]:
        return ""
    closing = written.text[end : len(written.text) - missing]
    if not closing.strip() or not new.startswith(closing):
        return ""
    replayed = comparison.after.messages[len(before.messages)]
    if any(closing in str(replayed.get(field)) for field in ("reasoning", "content")):
        return ""  # the parser left it in a text
    return "" if original.endswith(closing) else closing


def _left_open(answer: Answer | None, mark: str, original: str, prompt: str, new: str) -> str:
    """What the original prints between an answer and what is new, if the candidate does not.

    ``mark`` is the end of the answer's texts; the prompts go from what was asked to what is new.
    """
    if not mark.strip() or mark not in original or mark not in prompt:
        return ""
    had, has = (text.rpartition(mark)[2].strip() for text in (original, prompt))
    said = [text.strip() for text in (answer.reasoning, answer.content) if text] if answer else []
    if any(text and (had in text or text in had or text[:_MARK] in had) for text in said):
        return ""  # a text of the answer, which has stood behind its calls
    # Whitespace within it is for C2 to judge: the model wrote what it wrote.
    there = squeezed(has + new[: len(had)])
    return had if len(had) <= _CLOSING and squeezed(had) not in there else ""


def _is_finished(walk: Walk, comparison: Comparison) -> bool:
    """Whether the answer before was not cut short."""
    return walk.plan.scenario.turns[comparison.turn - 2].cut is None


def _otherwise(original: str, new: str) -> str:
    return difference(original[max(0, len(original) - len(new)) :], new)


def _moves_answer(comparison: Comparison, original: str, frame: str, tail: str) -> bool:
    """Whether the original prints the text of the answer before inside of a frame, or behind it."""
    answer = comparison.before.answer
    text = answer.content.strip() if answer is not None and answer.content else ""
    if not text or not frame or not original.endswith(tail):
        return False  # nothing that was moved, or nothing that it could have been moved behind
    shown = original.removesuffix(tail)
    _, found, rest = shown.rpartition(frame)
    if found:
        return text in rest
    # With what closes it, if with anything.
    before, _, after = shown.rpartition(text)
    behind = common_prefix(after[::-1], frame[::-1])
    return len(after) - behind <= _CLOSING and before.endswith(frame[: len(frame) - behind])


def _news(comparison: Comparison) -> Sequence[Message]:
    """The messages that came after the answer to the request before."""
    return comparison.after.messages[len(comparison.before.messages) + 1 :]


def _unprinted(messages: Sequence[Message], original: str, new: str) -> str | None:
    """A text of new messages that the original prints, and the new part of a prompt does not."""
    for message in messages:
        for text in message_texts(message.get("content")):
            printed = text if text in original else text.strip()
            if printed in original and printed not in new:
                return printed
    return None
