"""Where a prompt leaves the stream, in terms of the conversation: which message, which part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, answer_of
from templatefix.dialect.author import Completion
from templatefix.dialect.thinking import Tags, empty_block
from templatefix.replay.run import Comparison, Request

#: ``head`` is all before the first user or tool message; ``frame`` is a system, user or tool
#: message or the markup around it; ``tail`` is the generation prompt; ``completion`` what the
#: model wrote; ``seam`` is where only the token ids differ.
Region = Literal["head", "frame", "tail", "completion", "seam"]

#: So many characters of an answer tell it from others.
_ENOUGH = 16

Span = tuple[int, int]
#: The generation prompt's own text, the reasoning, the content and the calls of an answer.
_Spans = tuple[Span | None, Span | None, Span | None, Span | None]


@dataclass(frozen=True)
class Evidence:
    """A divergence and what stands on both sides of it.

    ``stream_part`` and ``prompt_part`` are the texts between the neighbouring user or tool
    messages, where the answer at fault (``answer``) stands; ``at`` is the divergence's place in
    ``stream_part``. ``tail``, ``reasoning``, ``content`` and ``calls`` are character spans in
    ``stream_part``, None where there is no such part. ``current`` is whether the answer at fault
    is the last one of the stream.
    """

    region: Region
    stream_part: str
    prompt_part: str
    at: int
    answer: Answer | None
    tags: Tags | None
    tail: Span | None
    reasoning: Span | None
    content: Span | None
    calls: Span | None
    current: bool
    message: int | None

    @property
    def reasoning_is_gone(self) -> bool:
        """Whether the reasoning that the stream holds is not in the prompt at all."""
        if self.reasoning is None:
            return False
        text = self.stream_part[slice(*self.reasoning)].strip()
        return bool(text) and text not in self.prompt_part

    @property
    def content_is_altered(self) -> bool:
        """Whether the content that the stream holds is not in the prompt to the character."""
        return self.content is not None and _lacks(self, self.content)

    @property
    def calls_are_altered(self) -> bool:
        """Whether the tool calls that the stream holds are not in the prompt to the character."""
        return self.calls is not None and _lacks(self, self.calls)

    @property
    def lost_by_parser(self) -> str | None:
        """The field whose text at the divergence never reached the client, if there is one.

        Whitespace at a field's end that is missing shows up after the whitespace that follows it.
        """
        if not self.current or self.answer is None or self.region != "completion":
            return None
        received = (self.answer.reasoning or "", self.answer.content or "")
        for field, span in (("reasoning", self.reasoning), ("content", self.content)):
            if span is None or self.at < span[0] or self.stream_part[span[1] : self.at].strip():
                continue
            text = self.stream_part[slice(*span)]
            if not any(text in each for each in received):
                return field
        return None

    @property
    def dropped_block(self) -> bool:
        """Whether an empty thinking block stands at the divergence and is not in the prompt."""
        here = [b for b in empty_block(self.stream_part, self.tags) if b[0] <= self.at <= b[1]]
        return bool(here) and len(empty_block(self.prompt_part, self.tags)) < len(
            empty_block(self.stream_part, self.tags)
        )

    def inside(self, span: Span | None) -> bool:
        """Whether the divergence lies in a part."""
        return span is not None and span[0] <= self.at < span[1]


def _lacks(evidence: Evidence, span: Span) -> bool:
    text = evidence.stream_part[slice(*span)]
    return bool(text.strip()) and text not in evidence.prompt_part


def gather(comparison: Comparison, canonical_reuse: int | None = None) -> Evidence:
    """The evidence for a comparison that does not preserve.

    ``canonical_reuse`` is the common prefix in tokens if the stream had been encoded in one
    piece; where that is longer than what was reused, the seam is at fault.
    """
    before, after = comparison.before, comparison.after
    stream, prompt, at = before.stream, after.prompt, comparison.characters
    completion = before.completion
    written = completion.written if completion else None
    found = anchors(before.messages, stream)
    tail = _tail(before, found)
    ours = in_order(before.messages, found)
    theirs = in_order(after.messages, anchors(after.messages, prompt))
    current = at >= len(before.prompt) - tail
    index = len(before.messages) if current else _answer_at(before.messages, at, ours)
    left, right = gap(index, ours, len(stream))
    other_left, other_right = gap(index, theirs, len(prompt))
    part = stream[left:right]
    if current:
        answer = before.answer
        spans = _current_spans(before, tail, len(before.prompt) - left)
        region: Region = "tail" if at < len(before.prompt) else "completion"
        untouched = region == "tail" and at == len(before.prompt) - tail
        if untouched and stream[at : len(before.prompt) + _ENOUGH] in prompt[at:other_right]:
            region = "frame"  # generation prompt and answer are there, after something else
    else:
        answer = answer_of(before.messages[index]) if index < len(before.messages) else None
        spans = _found_spans(part, answer)
        region = _region(before, at, at - left, part, found, spans)
    stop = written.stop[1] - written.stop[0] if written else 0
    if at >= len(stream) - stop or (
        canonical_reuse is not None and canonical_reuse > comparison.reuse + 1
    ):
        region = "seam"
    tags = completion.tags if completion else None
    return Evidence(
        region,
        part,
        prompt[other_left:other_right],
        at - left,
        answer,
        tags,
        *spans,
        current,
        index,
    )


def anchors(messages: Sequence[Message], text: str) -> dict[int, Span]:
    """Where the texts of system, user and tool messages stand in a prompt, by message index."""
    found: dict[int, Span] = {}
    position = 0
    for i, message in enumerate(messages):
        if message.get("role") == "assistant":
            continue
        pieces = [piece.strip() for piece in message_texts(message.get("content")) if piece.strip()]
        if not pieces:
            continue
        ordered = message.get("role") not in ("system", "developer")
        start = text.find(pieces[0], position if ordered else 0)
        if start < 0:
            continue
        last = text.find(pieces[-1], start)
        end = (last if last >= 0 else start) + len(pieces[-1] if last >= 0 else pieces[0])
        found[i] = (start, end)
        if ordered:
            position = end
    return found


def in_order(messages: Sequence[Message], spans: Mapping[int, Span]) -> dict[int, Span]:
    """The anchors without those of system messages that were printed elsewhere than sent."""

    def moved(i: int) -> bool:
        return messages[i].get("role") in ("system", "developer") and any(
            (j < i) is not (span < spans[i]) for j, span in spans.items() if j != i
        )

    return {i: span for i, span in spans.items() if not moved(i)}


def message_texts(content: Any) -> list[str]:
    """The texts of a message's content, be it a string or a list of parts."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, (list, tuple)):
        return [part if isinstance(part, str) else str(part.get("text") or "") for part in content]
    return []


def _region(
    before: Request,
    at: int,
    inside: int,
    part: str,
    spans: dict[int, Span],
    answer_spans: _Spans,
) -> Region:
    """The region of a divergence at ``at`` that lies before the current answer.

    ``inside`` is its place in ``part``, the text around the nearest answer.
    """
    roles = {i: before.messages[i].get("role") for i in spans}
    said = [span for i, span in spans.items() if roles[i] not in ("system", "developer")]
    if said and at < said[0][0]:
        return "head"
    for i, (start, end) in spans.items():
        if start <= at < end:
            return "head" if roles[i] in ("system", "developer") else "frame"
    nearest = min(((start, i) for i, (start, _) in spans.items() if start >= at), default=None)
    answered = max((span[1] for span in answer_spans if span is not None), default=0)
    if nearest is not None and roles[nearest[1]] in ("system", "developer") and inside >= answered:
        return "head"  # it was printed here, not at the beginning
    index = _answer_at(before.messages, at, in_order(before.messages, spans))
    if index >= len(before.messages):
        return "frame"
    begin, end = _answer_extent(before, part, answer_spans)
    return "completion" if begin <= inside < end else "frame"


def _answer_extent(before: Request, part: str, spans: _Spans) -> Span:
    """Where an earlier answer begins and ends in the text between its neighbours.

    It begins with the header that the generation prompt prints, and ends with a stop token.
    """
    completion = before.completion
    header = completion.tail if completion else ""
    if completion is not None and completion.tags is not None:
        header = header.partition(completion.tags.open)[0]
        header = header.partition(completion.tags.close)[0]
    begin = part.find(header.strip()) if header.strip() else -1
    last = max((span[1] for span in spans if span is not None), default=0)
    end = part.find(closing, last) if (closing := _closing(completion)) else -1
    return max(begin, 0), end + len(closing) if end >= 0 else len(part)


def _closing(completion: Completion | None) -> str:
    """The stop token, else what stands between the end of an answer's texts and its own."""
    written = completion.written if completion else None
    if written is None:
        return ""
    said = [span[1] for span in (written.reasoning, written.content, written.calls) if span]
    return written.text[slice(*written.stop)] or written.text[max(said, default=0) :]


def _answer_at(messages: Sequence[Message], at: int, spans: dict[int, Span]) -> int:
    """The index of the answer whose surroundings hold ``at``; past the end for the last one."""
    for i, message in enumerate(messages):
        if message.get("role") == "assistant" and at < gap(i, spans, at + 1)[1]:
            return i
    return len(messages)


def gap(index: int, spans: dict[int, Span], length: int) -> Span:
    """The text between the anchored messages on both sides of message ``index``."""
    before = [span[1] for i, span in spans.items() if i < index]
    after = [span[0] for i, span in spans.items() if i > index]
    left = max(before, default=0)
    right = min((start for start in after if start >= left), default=length)
    return left, right


def _tail(before: Request, found: Mapping[int, Span]) -> int:
    """The length of the generation prompt: it begins after what the messages say.

    A template that prints a message otherwise when a generation prompt follows has no other end.
    """
    length = len(before.completion.tail) if before.completion else 0
    said = [end for _, end in found.values() if end <= len(before.prompt)]
    return min(length, len(before.prompt) - max(said, default=0))


def _current_spans(before: Request, length: int, offset: int) -> _Spans:
    completion = before.completion
    if completion is None:
        return None, None, None, None
    tail = (offset - length, offset) if length else None
    written = completion.written
    if written is None:
        return tail, None, None, None

    def moved(span: Span | None) -> Span | None:
        return None if span is None else (span[0] + offset, span[1] + offset)

    return tail, moved(written.reasoning), moved(written.content), moved(written.calls)


def _found_spans(part: str, answer: Answer | None) -> _Spans:
    """The parts of an earlier answer, found by their texts."""
    if answer is None:
        return None, None, None, None

    def find(text: str | None, start: int) -> Span | None:
        text = (text or "").strip()
        at = part.find(text, start) if text else -1
        return None if at < 0 else (at, at + len(text))

    reasoning = find(answer.reasoning, 0)
    content = find(answer.content, reasoning[1] if reasoning else 0)
    calls = None
    if answer.tool_calls:
        begin = (content or reasoning or (0, 0))[1]
        name = part.find(answer.tool_calls[0].name, begin)
        if name >= 0:
            line = part.rfind("\n", begin, name)
            calls = (line + 1 if line >= 0 else name, len(part))
    return None, reasoning, content, calls
