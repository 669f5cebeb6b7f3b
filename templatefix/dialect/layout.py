"""The layout of a completion: literals around the places where an answer's texts go.

A layout is learned from one rendering of an answer whose texts are sentinels. Real texts are put
into it without ever passing through the template, which could otherwise trim its own evidence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Literal, NamedTuple

from templatefix.chat.answer import Answer, ToolCall

Field = Literal["reasoning", "content", "argument", "id"]


@dataclass(frozen=True)
class Slot:
    """Where one text goes. ``index`` counts string arguments through all calls, or calls.

    ``encode`` names how the layout's surroundings spell a text: ``raw``, ``json`` (inside a JSON
    string), ``json-twice`` (JSON inside a JSON string) or ``repr`` (a Python literal).
    """

    field: Field
    index: int = 0
    encode: str = "raw"


@dataclass(frozen=True)
class Layout:
    """Literals and slots in order, and the stop token that ends the turn (``""`` if unknown)."""

    parts: tuple[str | Slot, ...]
    stop: str


class Written(NamedTuple):
    """A completion's text and where its parts are: character spans, end exclusive.

    ``calls`` begins where the text that is neither reasoning nor content begins; ``stop`` spans
    the stop token.
    """

    text: str
    reasoning: tuple[int, int] | None
    content: tuple[int, int] | None
    calls: tuple[int, int] | None
    stop: tuple[int, int]

    @property
    def said(self) -> str:
        """The text without its stop token."""
        return self.text[: self.stop[0]]


class Unlearnable(Exception):
    """A rendering does not show the layout: a sentinel is missing, altered or out of order."""


_REASONING = "Zq7reasoning7qZ"
_CONTENT = "Zq7content7qZ"


def _leaf(index: int) -> str:
    return f"Zq7leaf{index}x7qZ"


@lru_cache(maxsize=128)
def sentinels(answer: Answer) -> Answer:
    """An answer of the same shape whose texts are unique alphanumeric sentinels.

    Remembered, since every mode is given the same few answers.
    """
    numbers = count()
    calls = tuple(
        ToolCall(call.name, json.dumps(_marked(arguments_of(call), numbers), ensure_ascii=False))
        for call in answer.tool_calls
    )
    return Answer(
        _REASONING if answer.reasoning else None,
        _CONTENT if answer.content else answer.content,
        calls,
    )


def _marked(value: Any, numbers: Iterator[int]) -> Any:
    """A JSON value with sentinels in place of its texts."""
    if isinstance(value, str):
        return _leaf(next(numbers))
    if isinstance(value, dict):
        return {key: _marked(item, numbers) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, numbers) for item in value]
    return value


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as a dict, as a server reads them; ``{}`` where they are no object."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def leaves(answer: Answer) -> tuple[str, ...]:
    """The string values of all calls' arguments, in order."""
    return _leaves(answer.tool_calls) if answer.tool_calls else ()


@lru_cache(maxsize=16)
def _leaves(calls: tuple[ToolCall, ...]) -> tuple[str, ...]:
    """Remembered, since every mode has the same few calls."""
    return tuple(text for call in calls for text in _texts(arguments_of(call)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def learn(
    rendered: str,
    shape: Answer,
    stops: Sequence[str],
    added: Iterable[str],
    ids: Sequence[str] = (),
) -> Layout:
    """The layout of ``rendered``, which shows the sentinel answer ``shape``.

    ``stops`` are the stop tokens; ``added`` the tokenizer's added tokens, among which a stop
    token is sought when none of those was printed. ``ids`` are those of the calls, which some
    formats print. Raises :class:`Unlearnable`.
    """
    expected = [text for text in (shape.reasoning, shape.content, *leaves(shape)) if text]
    slots: list[tuple[int, int, Slot]] = []
    for text in expected:
        start = rendered.find(text)
        if start < 0:
            raise Unlearnable(f"{_describe(text)} is not printed")
        if rendered.find(text, start + 1) >= 0:
            raise Unlearnable(f"{_describe(text)} is printed twice")
        slot = _slot(text, rendered, start)
        # A Python literal picks its quotes by what it holds: they are part of the slot.
        quotes = 1 if slot.encode == "repr" else 0
        slots.append((start - quotes, start + len(text) + quotes, slot))
    _check_order(slots, shape, rendered)
    slots += _id_slots(rendered, ids)
    slots.sort(key=lambda slot: slot[0])
    end, stop = _end(rendered, slots[-1][1] if slots else 0, stops, added)
    parts: list[str | Slot] = []
    position = 0
    for start, slot_end, slot in slots:
        if rendered[position:start]:
            parts.append(rendered[position:start])
        parts.append(slot)
        position = slot_end
    if rendered[position:end]:
        parts.append(rendered[position:end])
    return Layout(tuple(parts), stop)


def before_calls(words: Layout, calls: Layout) -> tuple[str | Slot, ...] | None:
    """The parts of an answer with content and calls, from layouts of each without the other.

    None where the two do not begin alike up to the content, but for whitespace.
    """
    at = next(
        (i for i, part in enumerate(words.parts) if part == Slot("content")), len(words.parts)
    )
    lead, rest = list(words.parts[:at]), list(calls.parts)
    if all(isinstance(part, str) and part.isspace() for part in lead) and lead != rest[:1]:
        return (*lead, Slot("content"), *rest)
    found: list[str | Slot] = []
    while lead:
        part = lead.pop(0)
        if not rest:
            return None
        other = rest.pop(0)
        if isinstance(part, str) and isinstance(other, str) and other.startswith(part) and not lead:
            if other != part:
                rest.insert(0, other[len(part) :])
        elif part != other:
            return None
        found.append(part)
    return (*found, Slot("content"), *rest)


def with_preamble(calls: Layout, opener: str, close: str) -> tuple[str | Slot, ...]:
    """The parts of an answer with content and calls, where content is a message of its own.

    ``calls`` is the layout without content; ``close`` stands behind every message but the last.
    """
    content: tuple[str | Slot, ...] = (opener, Slot("content"), close)
    at = next((i for i, part in enumerate(calls.parts) if part == Slot("reasoning")), -1)
    if at < 0:
        return (*content, *calls.parts)
    lead, rest = calls.parts[: at + 1], list(calls.parts[at + 1 :])
    after = rest[0] if rest and isinstance(rest[0], str) else ""
    if not after.startswith(close):
        return (*lead, close, *content, *rest)
    rest[0] = after.removeprefix(close)
    return (*lead, close, *content, *rest)


def write(layout: Layout, answer: Answer, close: str = "", ids: Sequence[str] = ()) -> Written:
    """The completion that says ``answer`` in ``layout``, its stop token included.

    ``close`` is the tag that closes reasoning, where the format has one; ``ids`` are the ids that
    the calls get.
    """
    texts = leaves(answer)
    pieces: list[str] = []
    length = 0
    spans: dict[str, tuple[int, int]] = {}
    for part in layout.parts:
        if isinstance(part, str):
            piece = part
        else:
            piece = _ENCODERS[part.encode](_text_for(part, answer, texts, ids))
            if part.field in ("reasoning", "content"):
                spans[part.field] = (length, length + len(piece))
        pieces.append(piece)
        length += len(piece)
    text = "".join(pieces)
    reasoning, content = spans.get("reasoning"), spans.get("content")
    calls = None
    if answer.tool_calls:
        begin = reasoning[1] if reasoning else 0
        begin = content[1] if content else _after_reasoning(text, begin, close)
        calls = (begin, length)
    return Written(
        text + layout.stop, reasoning, content, calls, (length, length + len(layout.stop))
    )


def _after_reasoning(text: str, begin: int, close: str) -> int:
    """Where a call begins that no content precedes: after the tag that closes the reasoning."""
    found = text.find(close, begin) if close else -1
    if found >= 0:
        begin = found + len(close)
    return begin + len(text[begin:]) - len(text[begin:].lstrip())


def _id_slots(rendered: str, ids: Sequence[str]) -> list[tuple[int, int, Slot]]:
    found = []
    for index, text in enumerate(ids):
        start = rendered.find(text)
        while start >= 0:
            found.append((start, start + len(text), Slot("id", index)))
            start = rendered.find(text, start + len(text))
    return found


def _text_for(slot: Slot, answer: Answer, texts: Sequence[str], ids: Sequence[str]) -> str:
    if slot.field == "id":
        return ids[slot.index]
    if slot.field == "reasoning":
        return answer.reasoning or ""
    if slot.field == "content":
        return answer.content or ""
    return texts[slot.index]


def _json_inner(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


_ENCODERS: dict[str, Callable[[str], str]] = {
    "raw": lambda text: text,
    "json": _json_inner,
    "json-twice": lambda text: _json_inner(_json_inner(text)),
    "repr": repr,
}


def _slot(sentinel: str, rendered: str, start: int) -> Slot:
    if sentinel == _REASONING:
        return Slot("reasoning")
    if sentinel == _CONTENT:
        return Slot("content")
    index = int(sentinel.removeprefix("Zq7leaf").removesuffix("x7qZ"))
    return Slot("argument", index, _encoding(rendered, start, start + len(sentinel)))


def _encoding(rendered: str, start: int, end: int) -> str:
    before, after = rendered[max(0, start - 2) : start], rendered[end : end + 2]
    if before == '\\"' and after == '\\"':
        return "json-twice"
    if before[-1:] == '"' and after[:1] == '"':
        return "json"
    if before[-1:] == "'" and after[:1] == "'":
        return "repr"
    return "raw"


def _check_order(slots: list[tuple[int, int, Slot]], shape: Answer, rendered: str) -> None:
    order = {"reasoning": 0, "content": 1, "argument": 2}
    starts: dict[int, int] = {}
    for start, _, slot in slots:
        rank = order[slot.field]
        starts[rank] = min(start, starts.get(rank, start))
    ranked = [starts[rank] for rank in sorted(starts)]
    if ranked != sorted(ranked):
        raise Unlearnable("the answer's fields are printed out of order")
    position = 0
    for call in shape.tool_calls:
        found = rendered.find(call.name, position)
        if found < 0:
            raise Unlearnable(f"the name of the call {call.name} is not printed")
        position = found + len(call.name)


def _end(
    rendered: str, position: int, stops: Sequence[str], added: Iterable[str]
) -> tuple[int, str]:
    """Where the completion ends and the stop token that ends it."""
    printed = [(rendered.find(stop, position), -len(stop), stop) for stop in stops if stop]
    printed = [found for found in printed if found[0] >= 0]
    if printed:
        where, _, stop = min(printed)
        return where, stop
    special = [
        (rendered.rfind(token, position), len(token), token)
        for token in added
        if token and not token.isspace() and not token.startswith(("</", "[/"))
    ]
    special = [found for found in special if found[0] >= 0]
    if special:
        where, _, stop = max(special)
        # One that stands in the middle of the answer as well would have ended it there.
        if stop not in rendered[:where] and not rendered[where + len(stop) :].strip():
            return where, stop
    end = len(rendered.rstrip()) if len(rendered.rstrip()) >= position else position
    return end, ""


def _describe(sentinel: str) -> str:
    if sentinel == _REASONING:
        return "the reasoning"
    return "the content" if sentinel == _CONTENT else "an argument of a tool call"
