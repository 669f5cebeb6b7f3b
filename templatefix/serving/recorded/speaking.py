"""What the model wrote for a recorded answer: its ids where they were recorded, else its text."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Cut, answer_of
from templatefix.chat.present import Unpresentable
from templatefix.dialect.author import Author, Completion, Unspoken
from templatefix.dialect.layout import Written
from templatefix.dialect.parsers import stripped
from templatefix.dialect.thinking import Tags
from templatefix.render import Crashed, Refused
from templatefix.replay.run import located
from templatefix.serving.recorded.joining import Held, Spoken
from templatefix.serving.recorded.shapes import Recorded
from templatefix.tokens import Encoder, completion_ids


@dataclass(frozen=True)
class Speaker:
    """Writes the completions of recorded requests."""

    author: Author
    encoder: Encoder

    def completion(self, held: Held, answer: Recorded | None) -> Spoken:
        """The completion of a request that got this answer, nothing where none is known."""
        silent = Spoken(None, "", array("I"), "unknown")
        if answer is None:
            return silent
        try:
            if answer.token_ids is not None and not self.encoder.approximate:
                return self._from_ids(held, answer, answer.token_ids)
            completion = self._from_fields(held, answer)
        except (Unspoken, Unpresentable, Refused, Crashed):
            return silent
        if completion.written is None:
            return replace(silent, completion=completion)
        text = completion.written.text
        ids = completion_ids(self.encoder, held.prompt, held.ids.tolist(), text)
        return Spoken(completion, text, array("I", ids), "text")

    def _from_ids(self, held: Held, answer: Recorded, ids: Sequence[int]) -> Spoken:
        text = self.encoder.decode(ids)
        seat = self.author.seat(held.messages, held.tools, held.kwargs)
        returned = answer_of(answer.message)
        written = located(text, returned, self.author.stops)
        written = _with_what_was_lost(written, returned, seat.tags)
        completion = Completion(written, "given", seat.tail, seat.state, seat.tags)
        return Spoken(completion, text, array("I", ids), "ids")

    def _from_fields(self, held: Held, answer: Recorded) -> Completion:
        """The completion in the layout of the template or of its parsers.

        Of the ways to take off the whitespace that parsers leave around the fields, the first
        counts that those parsers turn into the fields which were recorded.
        """
        author = self.author
        returned = answer_of(answer.message)
        seat = author.seat(held.messages, held.tools, held.kwargs)
        inline = seat.tags is not None and seat.tags.close in (returned.content or "")
        if inline and not returned.reasoning and not returned.tool_calls:
            text = returned.content or ""
            stop = author.stops[0] if author.stops and answer.ended else ""
            written = located(text + stop, returned, author.stops)
            return Completion(written, "given", seat.tail, seat.state, seat.tags)
        cut = None if answer.ended else _cut(returned)
        first: Completion | None = None
        for meant in _meant(returned, cut):
            found = author.completion(held.messages, held.tools, held.kwargs, meant, cut)
            if found.written is not None:
                found = found._replace(written=_ended(found.written, answer, cut))
            first = first or found
            if cut is not None or found.written is None:
                break
            written = found.written
            parsed = author.parsers.answer(
                written.said,
                meant,
                state=found.state,
                kwargs=held.kwargs,
                tools=held.tools,
                verbatim=True,
            )
            if _fields(parsed) == _fields(returned):
                return found
        assert first is not None
        return first


def _fields(answer: Answer) -> tuple[str, str]:
    """What tells whether two answers are one: beside a call parsers disagree on whitespace."""
    content = answer.content or ""
    return answer.reasoning or "", content.strip() if answer.tool_calls else content


def _cut(answer: Answer) -> Cut | None:
    """The field in which generation ended; None after a call that was recorded whole."""
    if answer.tool_calls:
        return None
    return "content" if (answer.content or "").strip() else "reasoning"


def _meant(answer: Answer, cut: Cut | None) -> Iterator[Answer]:
    """What an answer may have meant: its fields without the whitespace of their layout."""
    if cut == "reasoning":
        # What follows is cut off again; without it the layout of the answer is not complete.
        yield Answer((answer.reasoning or "").lstrip(), "x")
        return
    bare = stripped(answer)
    if cut == "content":
        yield bare._replace(content=(answer.content or "").lstrip())
        return
    yield bare
    for reasoning in _trimmed(answer.reasoning):
        for content in _trimmed(answer.content):
            yield Answer(reasoning, content, bare.tool_calls)


def _trimmed(field: str | None) -> list[str | None]:
    """A field as it stands, and without the newlines that layouts put around it."""
    if not field or field == field.strip():
        return [field]
    fronts = [field[count:] for count in range(3) if field.startswith("\n" * count)]
    ends = [front[:-1] for front in fronts if front.endswith("\n")]
    return [*fronts, *ends]


def _ended(written: Written, answer: Recorded, cut: Cut | None) -> Written:
    """The completion with the stop that was really there: none after a cut."""
    end = written.stop[0]
    if answer.ended and answer.stop is None:
        return written
    if cut is not None:
        return written
    stop = answer.stop if answer.ended and answer.stop else ""
    return written._replace(text=written.text[:end] + stop, stop=(end, end + len(stop)))


def _with_what_was_lost(written: Written, returned: Answer, tags: Tags | None) -> Written:
    """The spans of a completion's fields, widened to what the parser took off or changed.

    The text between the tags is the reasoning, the text after them the content, whatever of them
    reached the client.
    """
    end = written.calls[0] if written.calls else written.stop[0]
    begin, close = 0, -1
    if tags is not None:
        close = written.text.find(tags.close)
        opened = written.text.find(tags.open, 0, max(close, 0))
        begin = opened + len(tags.open) if opened >= 0 else 0
    reasoning, content = written.reasoning, written.content
    thought = written.text[begin : max(close, begin)]
    if close >= 0 and returned.reasoning is not None and thought not in returned.reasoning:
        reasoning = (begin, close)
    after = close + len(tags.close) if tags is not None and close >= 0 else 0
    said = written.text[after:end]
    if returned.content and said not in returned.content:
        found = content is not None and said.strip() == returned.content.strip()
        if found or (content is None and written.calls is None):
            content = (after, end)
    return written._replace(reasoning=reasoning, content=content)
