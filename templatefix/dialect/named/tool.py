"""Tool-call layouts: how a model writes calls, and how a parser of vLLM reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from templatefix.chat.answer import ToolCall

from .schema import Tools

#: Content around the calls, the calls, and whether the parser saw a call at all (its content rules
#: then hold even when it could read none).
Reading = tuple[str | None, tuple[ToolCall, ...], bool]


class Reader(Protocol):
    def __call__(
        self, text: str, tools: Tools, *, streaming: bool, tags_are_text: bool
    ) -> Reading: ...


@dataclass(frozen=True)
class ToolDialect:
    """One tool-call layout and the parser that reads it."""

    name: str
    open: str  # the marker that begins the calls
    read: Reader = field(repr=False)
    write: Callable[[Sequence[ToolCall], int], str] = field(repr=False)
    gap: str = ""  # between content and calls, as a model writes it
    parser: str = ""  # the vLLM --tool-call-parser; the name unless a parser reads two layouts
    losses: tuple[str, ...] = ()
    engine: bool = False  # built on vLLM's parser engine, so it also reads content without tools
    tags: tuple[str, ...] = ()  # the engine's own markers, which are never dropped as special
    tags_need_thinking: bool = False  # with thinking off, reasoning tags in content are text
    strips_content: bool = False  # whitespace around content is lost beside calls (not streamed)

    @property
    def flag(self) -> str:
        """The value of vLLM's ``--tool-call-parser``."""
        return self.parser or self.name

    def parse(
        self,
        text: str,
        tools: Tools,
        *,
        streaming: bool = False,
        tags_are_text: bool = False,
    ) -> tuple[str | None, tuple[ToolCall, ...]]:
        """Content and calls in the text that the reasoning parser left."""
        content, calls, seen = self.read(
            text, tools, streaming=streaming, tags_are_text=tags_are_text
        )
        # A stream of an older parser has let such content through before it saw the call.
        if seen and content is not None and not content.strip() and (self.engine or not streaming):
            content = None
        return content, calls

    def completion(self, calls: Sequence[ToolCall], ordinal: int = 0) -> str:
        """The text of the calls. ``ordinal``: how many calls the conversation had before."""
        return self.write(calls, ordinal) if calls else ""


def members(arguments: str) -> dict[str, Any]:
    """The arguments as an object; what is no JSON object is ``{}``, as vLLM presents it."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
