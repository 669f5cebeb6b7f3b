"""What happens while a traced template renders: what is printed, tested and looped over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

Value = TypeVar("Value")


#: Characters of a printed text (start and end), the number of the source span that printed them,
#: and the message at hand. Plain tuples, for renderings make them by the hundred.
Mark = tuple[int, int, int, int | None]

#: The number of a condition, how it came out, and the message at hand.
Outcome = tuple[int, bool, int | None]


class Printed(str):
    """A text that remembers who printed what of it.

    Macros and ``set`` blocks return one, and it stays what it is until it is printed or changed:
    every method of ``str`` gives a plain string. To a template it is a string like any other, so
    it has no methods of its own; the sandbox hides attributes that begin with an underscore.
    """

    __slots__ = ("_templatefix_marks",)

    _templatefix_marks: Sequence[Mark]


def printed(text: str, marks: Sequence[Mark]) -> Printed:
    remembering = Printed(text)
    remembering._templatefix_marks = marks
    return remembering


def marks_of(text: Printed) -> Sequence[Mark]:
    """Who printed what of a text, in order."""
    return text._templatefix_marks


def _add(marks: list[Mark], text: Printed, offset: int) -> None:
    """Add the marks of a text that begins at ``offset`` of another."""
    for start, end, place, message in text._templatefix_marks:
        marks.append((start + offset, end + offset, place, message))


class Recorder:
    """The state of one traced rendering.

    ``message`` is the index of the message that the running loop body or macro is about,
    ``outcomes`` are (place, truth, message) of every condition in the order of evaluation.
    """

    def __init__(self, messages: Sequence[Mapping[str, Any]], clock: datetime) -> None:
        self.clock = clock
        self.message: int | None = None
        self.outcomes: list[Outcome] = []
        self.outputs = 0
        self.loop_bodies = 0
        self._messages = messages
        self._copy = -1
        self._indexes = {id(message): index for index, message in enumerate(messages)}
        self._leaves: list[list[tuple[int, Any]]] = []

    # Printing. Generated code calls whole(place, value), and for a chain out(place, begin(), text):
    # while it computes that text it calls leaf() for each operand. Macros called on the way nest.

    def begin(self) -> None:
        self._leaves.append([])

    def leaf(self, place: int, value: Value) -> Value:
        self._leaves[-1].append((place, value))
        return value

    def out(self, place: int, _begun: None, text: str) -> Printed:
        """A printed expression: split among its leaves if they are what it consists of."""
        self.outputs += 1
        leaves = self._leaves.pop()
        pieces = [str(value) for _, value in leaves]
        if "".join(pieces) != text:
            leaves, pieces = [(place, text)], [text]
        marks: list[Mark] = []
        offset = 0
        for (leaf, value), piece in zip(leaves, pieces, strict=True):
            if isinstance(value, Printed):
                _add(marks, value, offset)
            elif piece:
                marks.append((offset, offset + len(piece), leaf, self.message))
            offset += len(piece)
        return printed(text, marks)

    def whole(self, place: int, value: object) -> str:
        """A printed expression that is a single leaf."""
        if type(value) is Printed:
            self.outputs += 1
            return value
        return self.data(place, str(value))

    def data(self, place: int, text: str) -> Printed:
        """Template data, or a printed constant."""
        self.outputs += 1
        return printed(text, ((0, len(text), place, self.message),) if text else ())

    def block(self, place: int, value: Any) -> Any:
        """What a call or filter block prints, or a loop that calls itself."""
        if isinstance(value, Printed) or not isinstance(value, str):
            return value
        return self.data(place, value)

    def gather(self, parts: Iterable[str]) -> Printed:
        """Joins what was printed; takes the place of Jinja's own ``concat``."""
        parts = list(parts)
        marks: list[Mark] = []
        offset = 0
        text = "".join(parts)
        for part in parts:
            if type(part) is Printed:
                _add(marks, part, offset)
            offset += len(part)
        return printed(text, marks)

    # Conditions.

    def truth(self, place: int, value: Value) -> Value:
        self.outcomes.append((place, bool(value), self.message))
        return value

    def item(self, items: tuple[Any, ...]) -> int | None:
        """Begins the test of a loop filter; returns the message to come back to."""
        before = self.message
        self.message = self._index(items, before)
        return before

    def kept(self, before: int | None, value: Value) -> Value:
        """Ends the test of a loop filter."""
        self.message = before
        return value

    # Messages.

    def enter(self, outside: int | None, items: tuple[Any, ...]) -> None:
        """A loop body begins; ``outside`` is the message around the whole loop."""
        self.loop_bodies += 1
        self.message = self._index(items, outside)

    def adopt(self, items: tuple[Any, ...]) -> None:
        """Outside of loops over messages, a variable or a parameter says which one it is about."""
        if self.message is None:
            self.message = self._index(items, None)

    def _index(self, items: tuple[Any, ...], otherwise: int | None) -> int | None:
        for item in items:
            if id(item) in self._indexes:
                return self._indexes[id(item)]
            if isinstance(item, Mapping) and "role" in item:
                copied = self._copied(item)
                if copied is not None:
                    return copied
        return otherwise

    def _copied(self, item: Mapping[str, Any]) -> int | None:
        """The message of which a template made this copy: some merge neighbours before all else.

        Of several that look alike it is the first after the one found last.
        """
        text = _text(item)
        alike = [
            index
            for index, message in enumerate(self._messages)
            if message.get("role") == item["role"]
            and (_text(message) == text or (_text(message) and text.startswith(_text(message))))
        ]
        if not alike:
            return None
        self._copy = next((index for index in alike if index > self._copy), alike[0])
        return self._copy


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(
            str(part.get("text", "")) for part in content if isinstance(part, Mapping)
        )
    return content if isinstance(content, str) else ""
