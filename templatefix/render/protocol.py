"""The one way in to rendering, whoever stands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

#: Where the clock stands unless a run moves it: reports are reproducible.
PINNED_CLOCK = datetime(2026, 1, 15, 12, 0, 0)


class RenderRequest(NamedTuple):
    """One call of a chat template, after the server has prepared the messages.

    ``kwargs`` are the chat template kwargs; special tokens belong to the renderer.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None
    add_generation_prompt: bool = True
    kwargs: Mapping[str, Any] | None = None
    clock: datetime = PINNED_CLOCK


class Renderer(Protocol):
    """Turns a request into the text of a prompt.

    ``render`` raises :class:`Refused`, :class:`Crashed` or :class:`SyntaxFault`.
    """

    @property
    def name(self) -> str: ...

    def render(self, request: RenderRequest) -> str: ...


class Refused(Exception):
    """The template called ``raise_exception``: a refusal in its own words, not a crash."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Crashed(Exception):
    """Rendering raised something else. ``line`` is the template's line when it is known."""

    def __init__(self, kind: str, message: str, line: int | None = None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.line = line


class OverLimit(Crashed):
    """Rendering took more time, memory or output than a template may take."""


class SyntaxFault(Exception):
    """The template does not compile: ``code`` is TF902, or TF601 where it takes too much to."""

    def __init__(self, message: str, line: int | None = None, code: str = "TF902") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.code = code
