"""Inputs that hold no answer, and inputs in an order that no server should send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from templatefix.chat.battery import BATTERY, TOOLS
from templatefix.chat.conversation import Message
from templatefix.chat.server import Tools
from templatefix.patching.bench import Kwargs
from templatefix.patching.shapes import SHAPES


@dataclass(frozen=True)
class Input:
    """One rendering's input."""

    messages: Sequence[Message]
    tools: Tools
    kwargs: Kwargs
    generation_prompt: bool = True


_SYSTEM: Message = {"role": "system", "content": "  You keep the log of a lighthouse.\n"}
_USER: Message = {"role": "user", "content": " Who was on watch?\n\n"}
_AGAIN: Message = {"role": "user", "content": "I mean last night."}
_TOOL: Message = {"role": "tool", "tool_call_id": "call_0", "name": "find", "content": "nobody"}
_PARTS: Message = {
    "role": "user",
    "content": [{"type": "text", "text": "A gale"}, {"type": "text", "text": "is coming."}],
}
_DEVELOPER: Message = {"role": "developer", "content": "Answer in one word."}

#: Conversations without an answer that no scenario of the battery begins with.
_MORE: tuple[tuple[Message, ...], ...] = (
    (_SYSTEM,),
    (_SYSTEM, _USER),
    (_USER, _AGAIN),
    (_SYSTEM, _USER, _AGAIN),
    (_USER, _SYSTEM, _AGAIN),
    (_SYSTEM, _SYSTEM, _USER),
    (_DEVELOPER, _USER),
    (_SYSTEM, _DEVELOPER, _USER),
    (_PARTS,),
    (_SYSTEM, _PARTS, _USER),
    (_TOOL,),
    (_USER, _TOOL),
    (_USER, _TOOL, _TOOL, _AGAIN),
    ({"role": "user", "content": ""},),
    ({"role": "system", "content": ""}, _USER),
)


def openings(kwargs: Kwargs) -> Iterator[Input]:
    """Every conversation without an answer, with and without tools and generation prompt."""
    firsts = [scenario.turns[0].new_messages for scenario in (*BATTERY, *SHAPES)]
    for messages in (*_distinct(firsts), *_MORE):
        for tools, generation_prompt in product((None, TOOLS), (True, False)):
            yield Input(messages, tools, kwargs, generation_prompt)


def _distinct(found: Sequence[tuple[Message, ...]]) -> list[tuple[Message, ...]]:
    return [each for i, each in enumerate(found) if each not in found[:i]]


_CALL: Mapping[str, Any] = {
    "id": "call_0",
    "type": "function",
    "function": {"name": "find", "arguments": {"who": "keeper"}},
}


def _answer(**fields: Any) -> Message:
    return {"role": "assistant", "content": "The old keeper was.", **fields}


def _calling(**fields: Any) -> Message:
    """An answer with one call, whose fields are given."""
    return _answer(content="", tool_calls=[{**_CALL, "function": {**_CALL["function"], **fields}}])


#: What stands for a role in an odd order of roles.
_ROLES: tuple[Message, ...] = (
    _SYSTEM,
    _USER,
    _answer(),
    _answer(content="", tool_calls=[_CALL]),
    _TOOL,
)
#: Answers that are odd in themselves.
_ANSWERS: tuple[Message, ...] = (
    _answer(content=None),
    _answer(content=""),
    _answer(content=[]),
    _answer(content=[{"type": "text", "text": "Nobody."}]),
    {"role": "assistant"},
    _answer(reasoning_content=""),
    _answer(reasoning_content=None),
    _answer(reasoning_content="The log is empty."),
    _answer(reasoning="The log is empty."),
    _answer(content="<think>\nThe log.\n</think>\n\nNobody."),
    _answer(content="</think>"),
    _answer(content="<think>"),
    _answer(tool_calls=[]),
    _answer(tool_calls=None),
    _answer(content=None, tool_calls=[_CALL]),
    _answer(content=None, reasoning_content="Look it up.", tool_calls=[_CALL, _CALL]),
    _answer(tool_calls=[_CALL, _CALL]),
    _calling(arguments='{"who": "keeper"}'),
    _calling(arguments="{not json"),
    _calling(arguments=""),
    _calling(arguments={}),
    _calling(arguments=None),
    _calling(arguments=[]),
    _answer(tool_calls=[_CALL["function"]]),
    _answer(tool_calls=[{"function": {"name": "find", "arguments": {}}}]),
    _answer(tool_calls=[{"type": "function", "function": {"name": "find"}}]),
)
#: Other messages that are odd in themselves.
_STRANGERS: tuple[Message, ...] = (
    {"content": "a message without a role"},
    {"role": "user"},
    {"role": "user", "content": None},
    {"role": "user", "content": []},
    {"role": "system", "content": None},
    {"role": "narrator", "content": "Night fell."},
    {"role": "function", "name": "find", "content": "nobody"},
    {"role": "tool", "content": "nobody"},
    {"role": "tool", "tool_call_id": "call_0", "content": None},
    {"role": "tool", "tool_call_id": "call_0", "content": [{"type": "text", "text": "nobody"}]},
)


def odd(kwargs: Kwargs) -> Iterator[Input]:
    """Inputs as transformers hands them on: any order of roles, missing and empty fields.

    The longer orders are tried in the default mode alone.
    """
    yield Input((), None, kwargs)
    for messages in _orders(2 if kwargs else 3):
        yield Input(messages, None, kwargs)
    for answer in _ANSWERS:
        yield Input((_USER, answer), TOOLS, kwargs, False)
        yield Input((_USER, answer, _AGAIN), TOOLS, kwargs)
        yield Input((_USER, answer, _TOOL, answer, _AGAIN), None, kwargs)
    for stranger in _STRANGERS:
        yield Input((stranger,), None, kwargs)
        yield Input((_USER, stranger), None, kwargs)
        yield Input((_USER, _answer(), stranger, _answer(), _AGAIN), TOOLS, kwargs)
    yield Input((_USER,), [], kwargs)
    yield Input((_USER, _answer(), _AGAIN), [], kwargs)


def _orders(longest: int) -> Iterator[tuple[Message, ...]]:
    for length in range(1, longest + 1):
        yield from product(_ROLES, repeat=length)
    system, user, answer, call, tool = _ROLES
    yield (system, user, answer, answer, user)
    yield (user, answer, user, user, answer)
    yield (user, call, tool, tool, user)
    yield (user, call, call, tool, answer)
    yield (user, call, user, tool, answer)
    yield (user, answer, system, user)
    yield (system, user, call, tool, system, user)
    yield (answer, user, answer, user)
