"""What a client did otherwise than one that sends everything back as it got it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from templatefix.chat.conversation import Message
from templatefix.chat.present import ContentFormat, present_one, present_tools
from templatefix.chat.server import Tools
from templatefix.serving.recorded.joining import Match
from templatefix.serving.recorded.keys import canonical, instructs, key_of
from templatefix.serving.recorded.shapes import Recorded

Change = Literal[
    "changed-system",
    "changed-tools",
    "reordered-tools",
    "changed-kwargs",
    "truncated-history",
    "edited-history",
    "dropped-reasoning",
    "reformatted-answer",
]


@dataclass(frozen=True)
class Sent:
    """A request as a client sends it."""

    messages: tuple[Message, ...]
    tools: Tools
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Departure:
    """How a request departs from ``faithful``, the one that continues ``held`` unchanged.

    ``alone`` holds for every change the faithful request with nothing but that change.
    ``drops_this`` is whether the reasoning of the last answer was left out.
    """

    faithful: Sent
    alone: Mapping[Change, Sent]
    drops_this: bool


def departure(
    match: Match,
    answer: Recorded | None,
    sent: Sent,
    content_format: ContentFormat,
    closing_tag: str,
) -> Departure:
    """Compare a request with what a faithful client would have sent to continue ``match.held``.

    ``answer`` is the one that it got. Raises ``Unpresentable``.
    """
    held = match.held
    count = _covered(match, sent)
    theirs, new = sent.messages[:count], sent.messages[count:]
    ours = held.messages
    if match.answer is not None and answer is not None:
        ours = (*ours, answer.message)
    faithful = Sent((*ours, *new), held.tools, held.kwargs)
    alone: dict[Change, Sent] = {}

    def with_history(messages: Sequence[Message]) -> Sent:
        return Sent((*messages, *new), held.tools, held.kwargs)

    our_system, our_rest = _parted(ours)
    their_system, their_rest = _parted(theirs)
    if _shown(our_system, content_format) != _shown(their_system, content_format):
        alone["changed-system"] = with_history(_woven(ours, their_system, our_rest))
    tools = _change_of_tools(held.tools, sent.tools)
    if tools is not None:
        alone[tools] = Sent(faithful.messages, sent.tools, held.kwargs)
    if canonical(held.kwargs) != canonical(sent.kwargs):
        alone["changed-kwargs"] = Sent(faithful.messages, held.tools, sent.kwargs)
    drops_this = False
    if len(our_rest) == len(their_rest):
        kinds = [
            _kinds(a, b, content_format, closing_tag)
            for a, b in zip(our_rest, their_rest, strict=True)
        ]
        drops_this = bool(kinds) and "dropped-reasoning" in kinds[-1]
        for change in dict.fromkeys(name for kind in kinds for name in kind):
            rest = [kind.get(change, a) for a, kind in zip(our_rest, kinds, strict=True)]
            alone[change] = with_history(_woven(ours, our_system, rest))
    else:
        known = {key_of(message, closing_tag) for message in our_rest}
        shortened = all(key_of(message, closing_tag) in known for message in their_rest)
        name: Change = "truncated-history" if shortened else "edited-history"
        alone[name] = with_history(_woven(theirs, our_system, their_rest))
    return Departure(faithful, alone, drops_this)


def _covered(match: Match, sent: Sent) -> int:
    """How many messages of a request are the earlier request's and its answer."""
    if match.answer is not None:
        return match.answer + 1
    spoken = [i for i, message in enumerate(sent.messages) if not instructs(message)]
    return spoken[match.keys - 1] + 1


def _parted(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """System messages, and the others."""
    system = [message for message in messages if instructs(message)]
    return system, [message for message in messages if not instructs(message)]


def _woven(
    pattern: Sequence[Message], system: Sequence[Message], rest: Sequence[Message]
) -> list[Message]:
    """System messages and others in the order of ``pattern``, where it has as many of both."""
    instructing = [instructs(message) for message in pattern]
    if instructing.count(True) != len(system) or instructing.count(False) != len(rest):
        return [*system, *rest]
    first, second = iter(system), iter(rest)
    return [next(first if each else second) for each in instructing]


def _shown(messages: Sequence[Message], content_format: ContentFormat) -> list[dict[str, Any]]:
    return [present_one(message, content_format) for message in messages]


def _change_of_tools(ours: Tools, theirs: Tools) -> Change | None:
    before, after = present_tools(ours or ()), present_tools(theirs or ())
    # The order of keys shows in what a template prints.
    if repr(before) == repr(after):
        return None
    same = sorted(map(canonical, before)) == sorted(map(canonical, after))
    return "reordered-tools" if same else "changed-tools"


def _kinds(
    ours: Message, theirs: Message, content_format: ContentFormat, closing_tag: str
) -> dict[Change, Message]:
    """The changes of one message, each with the message that shows it alone."""
    if ours is theirs:
        return {}
    before, after = present_one(ours, content_format), present_one(theirs, content_format)
    if before == after:
        return {}
    if key_of(ours, closing_tag) != key_of(theirs, closing_tag):
        return {"edited-history": theirs}
    if ours.get("role") != "assistant":
        return {"edited-history": theirs}
    found: dict[Change, Message] = {}
    inside = bool(closing_tag) and closing_tag in str(ours.get("content"))
    if inside and closing_tag not in str(theirs.get("content")):
        return {"dropped-reasoning": theirs}
    silent = dict(_without_reasoning(ours))
    dropped = "reasoning" in before and "reasoning" not in after
    if dropped:
        found["dropped-reasoning"] = silent
    if present_one(silent if dropped else ours, content_format) != after:
        reasoning = ours.get("reasoning", ours.get("reasoning_content"))
        found["reformatted-answer"] = {**theirs, "reasoning": reasoning} if dropped else theirs
    return found


def _without_reasoning(message: Message) -> Iterator[tuple[str, Any]]:
    return (
        (key, value)
        for key, value in message.items()
        if key not in ("reasoning", "reasoning_content")
    )
