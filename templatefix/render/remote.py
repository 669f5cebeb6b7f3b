"""What renders and encodes in our place: a running vLLM, or a library that does what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Message = Mapping[str, Any]


class Remote(Protocol):
    """Prompts as token ids. ``url`` is what errors call it, ``name`` what reports do.

    ``render`` and ``derender`` raise ``Refused`` or ``Crashed``.
    """

    @property
    def url(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def name(self) -> str: ...

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        kwargs: Mapping[str, Any],
        *,
        generation_prompt: bool = True,
    ) -> list[int]:
        """The token ids of a prompt."""
        ...

    def derender(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        kwargs: Mapping[str, Any],
        prompt_ids: Sequence[int],
        completion_ids: Sequence[int],
        *,
        cut: bool = False,
    ) -> Message | None:
        """The assistant message for a completion; None where there are no parsers."""
        ...

    def tokenize(self, text: str) -> list[int]: ...
    def detokenize(self, token_ids: Sequence[int]) -> str: ...
