"""Where a model speaks."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.chat.conversation import Message
from templatefix.chat.server import Kwargs, Tools
from templatefix.dialect.thinking import Tags
from templatefix.prefix import common_prefix


@dataclass(frozen=True)
class Place:
    """A place where the model speaks: the messages before it, in one mode."""

    messages: tuple[Message, ...]
    tools: Tools
    kwargs: Kwargs
    prompt: str
    bare: str
    quiet: bool
    opened: bool
    tags: Tags | None

    @property
    def tail(self) -> str:
        return self.prompt[common_prefix(self.prompt, self.bare) :]
