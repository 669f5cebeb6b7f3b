"""Twins of a live server that render in the child: the parent's side, and the child's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templatefix.chat.conversation import Message
from templatefix.serving.live.twin import Twin
from templatefix.source import ChatTemplate
from templatefix.worker.codec import typed

#: What of a request's body decides what is rendered.
_RENDERED = ("tools", "chat_template_kwargs")

#: The child's: the one of the served template and the one of a candidate.
_KNOWN: list[tuple[ChatTemplate, Twin]] = []
_MOST = 2


@dataclass(frozen=True)
class Turn:
    """A request, of which the prompt's ids are asked for, or those of the ``answer``.

    ``length`` is how many tokens the server counted.
    """

    messages: Sequence[Message]
    body: Mapping[str, Any]
    length: int
    answer: Message | None = None


class RemoteTwin:
    """See ``Twin``; ``ask`` asks the child, first of all whether it can make one."""

    def __init__(self, ask: Callable[[Turn | None], Any]) -> None:
        self._ask = ask
        ask(None)

    def prompt_ids(
        self, messages: Sequence[Message], body: Mapping[str, Any], length: int
    ) -> list[int] | None:
        return self._ids(Turn(messages, _rendered(body), length))

    def completion_ids(
        self,
        messages: Sequence[Message],
        body: Mapping[str, Any],
        answer: Message,
        length: int,
    ) -> list[int] | None:
        return self._ids(Turn(messages, _rendered(body), length, answer))

    def _ids(self, turn: Turn) -> list[int] | None:
        found = self._ask(turn)
        return None if found is None else typed(list[int], found)


def _rendered(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: body[key] for key in _RENDERED if key in body}


def twin_of(template: ChatTemplate) -> Twin:
    """The twin of a template, which is made once. Raises ``TargetError``."""
    for known, twin in _KNOWN:
        if known == template:
            return twin
    twin = Twin(template)
    _KNOWN[:] = [*_KNOWN[1 - _MOST :], (template, twin)]
    return twin


def ids(twin: Twin, turn: Turn) -> list[int] | None:
    """What a turn asks for. Raises ``TargetError``."""
    if turn.answer is None:
        return twin.prompt_ids(turn.messages, turn.body, turn.length)
    return twin.completion_ids(turn.messages, turn.body, turn.answer, turn.length)
