"""What tells messages apart when conversations are joined: their words, and no more.

Clients replay an answer with other whitespace, without its reasoning, or under other call ids, and
still mean the same conversation. System messages are left out: one that changes (a date, a list of
files) does not begin another conversation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from templatefix.chat.conversation import Message

_INSTRUCTING = frozenset({"system", "developer"})


@dataclass(frozen=True)
class Keys:
    """One key for each message that is no system message; ``places`` are their indices.

    ``chains[i]`` stands for the first ``i`` of them together.
    """

    each: tuple[bytes, ...]
    places: tuple[int, ...]
    chains: tuple[bytes, ...]


def keys_of(messages: Sequence[Message], closing_tag: str) -> Keys:
    """The keys of a request's messages. ``closing_tag`` ends reasoning inside content."""
    places = [i for i, message in enumerate(messages) if not instructs(message)]
    each = [key_of(messages[i], closing_tag) for i in places]
    chains = [b""]
    for key in each:
        chains.append(chained(chains[-1], key))
    return Keys(tuple(each), tuple(places), tuple(chains))


@dataclass(frozen=True)
class Setting:
    """What a request says around its conversation: digests of it."""

    system: bytes
    tools: bytes
    kwargs: bytes


def setting_of(messages: Sequence[Message], tools: Any, kwargs: Mapping[str, Any]) -> Setting:
    """The digests of a request's system messages, tools and chat template kwargs."""
    system = [_words(each.get("content")).strip() for each in messages if instructs(each)]
    return Setting(_digest(system), _digest(tools), _digest(kwargs))


def _digest(value: Any) -> bytes:
    spelled = json.dumps(value).encode("utf-8", "surrogatepass")
    return blake2b(spelled, digest_size=16).digest()


def instructs(message: Message) -> bool:
    """Whether a message is a system message or a developer's."""
    return message.get("role") in _INSTRUCTING


def chained(before: bytes, key: bytes) -> bytes:
    return blake2b(before + key, digest_size=16).digest()


def key_of(message: Message, closing_tag: str) -> bytes:
    """The key of one message."""
    text = _words(message.get("content"))
    if message.get("role") == "assistant" and closing_tag:
        text = text.rpartition(closing_tag)[2]
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    return _digest([message.get("role"), text.strip(), calls])


def _words(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    words = []
    for part in content:
        text = part if isinstance(part, str) else part.get("text")
        words.append(text if isinstance(text, str) else canonical(part))
    return "\n".join(words)


def _call(call: Mapping[str, Any]) -> list[str]:
    function = call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return [function["name"], arguments]
    return [function["name"], canonical(arguments or {})]


def canonical(value: Any) -> str:
    """A value as JSON in which the order of keys does not show."""
    return json.dumps(value, sort_keys=True)
