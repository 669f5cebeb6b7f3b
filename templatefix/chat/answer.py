"""What a server's parsers make of a completion: the answer that a client gets and replays."""

from __future__ import annotations

from typing import NamedTuple


class ToolCall(NamedTuple):
    """One call. ``arguments`` is JSON text, as the API carries it."""

    name: str
    arguments: str


class Answer(NamedTuple):
    """The fields of an assistant message, exactly as the parsers return them.

    ``None`` is a field that the API leaves out or sends as null; ``""`` is an empty text.
    """

    reasoning: str | None
    content: str | None
    tool_calls: tuple[ToolCall, ...] = ()
