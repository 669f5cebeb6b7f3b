"""Requests joined to conversations, with a bounded number of them held.

A request continues the one whose messages and answer it begins with. Where it begins with no such
thing, because its client has changed something, the last answer that it shares with an earlier one
tells which conversation it belongs to, if the system message and most of the rest agree.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from templatefix.chat.conversation import Message
from templatefix.chat.server import Tools
from templatefix.dialect.author import Completion
from templatefix.serving.recorded.keys import Keys, Setting, chained, key_of
from templatefix.serving.recorded.shapes import Recorded

#: So many requests are held, and no more characters of prompts than this: 32 million of them, with
#: messages and token ids, take about 200 MB.
OPEN_REQUESTS = 2000
OPEN_CHARACTERS = 32_000_000

#: Requests with the same words that are looked at, the latest first.
_LOOKED_AT = 50


@dataclass
class Spoken:
    """What follows a prompt in its stream: text and ids, and where they are known from.

    ``known`` is ``ids``, ``text`` or ``unknown``: then nothing follows.
    """

    completion: Completion | None
    text: str
    ids: array[int]
    known: str


@dataclass(eq=False)
class Held:
    """A request that may be continued. ``ids`` are the prompt's token ids.

    ``spoken`` is its completion once somebody asked for it, by its recorded answer.
    """

    line: int
    messages: tuple[Message, ...]
    tools: Tools
    kwargs: Mapping[str, Any]
    keys: Keys
    setting: Setting
    answer: Recorded | None
    prompt: str
    ids: array[int]
    conversation: int
    continued: bool = False
    spoken: Spoken | None = None
    indexed: list[tuple[str, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class Match:
    """The request that another one continues.

    ``keys`` of the later request's keys belong to it, ``answer`` is the index of the message that
    answers it, None where there is none: the same request again, or one without its answer.
    """

    held: Held
    keys: int
    answer: int | None


class OpenRequests:
    """The requests that may still be continued: no more than a bounded number of them.

    To make room, those go first that another request has continued already, the oldest first; then
    the ends of conversations that nobody has continued for the longest time.
    """

    def __init__(
        self,
        closing_tag: str = "",
        *,
        requests: int = OPEN_REQUESTS,
        characters: int = OPEN_CHARACTERS,
    ) -> None:
        self.closing_tag = closing_tag
        self.conversations = 0
        self.closed = 0
        self._limits = (requests, characters)
        self._characters = 0
        self._passed: OrderedDict[int, Held] = OrderedDict()
        self._ends: OrderedDict[int, Held] = OrderedDict()
        self._index: dict[tuple[str, bytes], list[Held]] = {}
        self._of: dict[int, list[Held]] = {}

    def __len__(self) -> int:
        return len(self._passed) + len(self._ends)

    def match(self, keys: Keys, setting: Setting, messages: tuple[Message, ...]) -> Match | None:
        """The request that one with these messages continues, None for a new conversation."""
        for count in range(len(keys.each), 0, -1):
            last = keys.places[count - 1]
            for held in self._at("answered", keys.chains[count], setting):
                return Match(held, count, last)
            for held in self._at("asked", keys.chains[count], setting):
                found = _after_question(held, keys, count, messages)
                if _is_trusted(found, setting):
                    return found
            for held in self._at("last answer", keys.each[count - 1], setting):
                if _mostly_shared(held, keys, count - 1, setting):
                    return Match(held, count, last)
            for held in self._at("last question", keys.each[count - 1], setting):
                found = _after_question(held, keys, count, messages)
                if found.answer is not None and _mostly_shared(held, keys, count, setting):
                    return found
        return None

    def of(self, conversation: int) -> Iterable[Held]:
        """The held requests of a conversation, the latest first."""
        return reversed(self._of.get(conversation, ()))

    def begin(self) -> int:
        """A new conversation."""
        self.conversations += 1
        return self.conversations

    def add(self, held: Held) -> None:
        """Hold a request, and let others go where there are too many."""
        held.indexed = [("asked", held.keys.chains[-1])]
        if held.answer is not None:
            answer = key_of(held.answer.message, self.closing_tag)
            held.indexed.append(("answered", chained(held.keys.chains[-1], answer)))
            held.indexed.append(("last answer", answer))
        elif held.keys.each:
            held.indexed.append(("last question", held.keys.each[-1]))
        for entry in held.indexed:
            self._index.setdefault(entry, []).append(held)
        self._ends[id(held)] = held
        self._of.setdefault(held.conversation, []).append(held)
        self._characters += len(held.prompt)
        requests, characters = self._limits
        while len(self) > 1 and (len(self) > requests or self._characters > characters):
            self._let_go()

    def passed(self, held: Held) -> None:
        """Another request has continued this one."""
        held.continued = True
        if self._ends.pop(id(held), None) is not None:
            self._passed[id(held)] = held
        elif id(held) in self._passed:
            self._passed.move_to_end(id(held))

    def _at(self, kind: str, key: bytes, setting: Setting) -> list[Held]:
        """The latest first, those with the same setting before the others."""
        found = self._index.get((kind, key), ())
        return sorted(found[: -_LOOKED_AT - 1 : -1], key=lambda held: -_agreement(held, setting))

    def _let_go(self) -> None:
        _, held = (self._passed or self._ends).popitem(last=False)
        self._characters -= len(held.prompt)
        for entry in held.indexed:
            _remove(self._index, entry, held)
        _remove(self._of, held.conversation, held)
        self.closed += held.conversation not in self._of


def _agreement(held: Held, setting: Setting) -> int:
    theirs = held.setting
    return (
        4 * (theirs.system == setting.system)
        + 2 * (theirs.tools == setting.tools)
        + (theirs.kwargs == setting.kwargs)
    )


def _is_trusted(match: Match, setting: Setting) -> bool:
    """Whether two requests belong together that share no answer.

    Many conversations begin with the same words: only the same setting makes them one.
    """
    if match.answer is None:
        return match.held.setting == setting
    shared = any(m.get("role") == "assistant" for m in match.held.messages)
    return shared or match.held.setting.system == setting.system


def _remove(lists: dict[Any, list[Held]], key: Any, held: Held) -> None:
    lists[key].remove(held)
    if not lists[key]:
        del lists[key]


def _after_question(held: Held, keys: Keys, count: int, messages: tuple[Message, ...]) -> Match:
    """The match with a request by its messages alone."""
    follows = keys.places[count] if count < len(keys.places) else None
    if follows is not None and messages[follows].get("role") == "assistant":
        return Match(held, count + 1, follows)
    return Match(held, count, None)


def _mostly_shared(held: Held, keys: Keys, count: int, setting: Setting) -> bool:
    """Whether at least half of the shorter history stands in the longer one, under one system.

    ``count`` keys of the later request stand against all of the earlier one's.
    """
    if held.setting.system != setting.system:
        return False
    ours, theirs = Counter(keys.each[:count]), Counter(held.keys.each)
    shared = sum((ours & theirs).values())
    return 2 * shared >= min(ours.total(), theirs.total())
