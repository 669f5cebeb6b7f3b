"""Conversations in every form that clients send, and in some that few do."""

from __future__ import annotations

from typing import Any

from templatefix.chat.conversation import Message

USER: Message = {"role": "user", "content": "q"}


def _parts(*texts: str) -> list[Message]:
    return [{"type": "text", "text": text} for text in texts]


def _assistant(**fields: Any) -> Message:
    return {"role": "assistant", **fields}


def _with_call(**changes: Any) -> list[Message]:
    """A conversation with a call, in which ``changes`` are made."""
    function = {"name": "f", "arguments": changes.pop("arguments", "{}")}
    function |= changes.pop("function", {})
    call = {"id": "c1", "type": "function", "function": function} | changes.pop("call", {})
    result = {"role": "tool", "tool_call_id": "c1", "content": "r"} | changes.pop("result", {})
    return [USER, _assistant(**{"content": None, "tool_calls": [call], **changes}), result]


_HEADER = "x-anthropic-billing-header: v=1; cch=ab"

CASES: dict[str, list[Message]] = {
    "plain": [USER],
    "keys in another order": [{"content": "q", "role": "user"}],
    "no content": [{"role": "user"}],
    "null content": [{"role": "user", "content": None}],
    "null content of an answer": [USER, _assistant(content=None), USER],
    "null content of a tool": _with_call(result={"content": None}),
    "no parts": [{"role": "user", "content": []}],
    "parts": [{"role": "user", "content": _parts("a", "b")}],
    "a part that is a text": [{"role": "user", "content": ["a", *_parts("b")]}],
    "empty parts": [{"role": "user", "content": _parts("", "x", "")}],
    "unknown keys of a part": [
        {"role": "user", "content": [{"type": "text", "text": "b", "cache": {"a": 1}, "z": 1}]}
    ],
    "known keys of a part": [
        {"role": "user", "content": [{"type": "text", "text": "b", "name": "n"}]}
    ],
    "a part with a uuid": [{"role": "user", "content": [{**_parts("b")[0], "uuid": "u"}]}],
    "an unknown part": [{"role": "user", "content": [{"type": "odd", "text": "b"}]}],
    "content that is a number": [{"role": "user", "content": 5}],
    "a refusal": [USER, _assistant(content=[{"type": "refusal", "refusal": "no"}]), USER],
    "a refusal beside content": [USER, _assistant(content=None, refusal="no"), USER],
    "a part of thinking": [
        USER,
        _assistant(content=[{"type": "thinking", "thinking": "h", "closed": True}, *_parts("a")]),
        USER,
    ],
    "no role": [{"content": "q"}],
    "an invented role": [{"role": "critic", "content": "q"}],
    "a function's message": [{"role": "function", "name": "f", "content": "r"}],
    "a name": [{"role": "user", "name": "Ann", "content": "q"}],
    "a task": [{"role": "user", "task": "t", "content": "q"}],
    "unknown keys": [{"role": "user", "content": "q", "weight": 0, "tool_call_id": "x"}],
    "keys of an assistant": [
        USER,
        _assistant(content="a", tool_call_id="z", audio=None, annotations=[]),
        USER,
    ],
    "reasoning": [USER, _assistant(reasoning="r", content="a"), USER],
    "reasoning content": [USER, _assistant(reasoning_content="r", content="a"), USER],
    "both names": [USER, _assistant(reasoning_content="x", reasoning="r", content="a"), USER],
    "null reasoning": [USER, _assistant(reasoning_content="x", reasoning=None, content="a"), USER],
    "empty reasoning": [USER, _assistant(reasoning_content="x", reasoning="", content="a"), USER],
    "reasoning of a user": [{**USER, "reasoning": "r", "reasoning_content": "r"}],
    "the name thinking": [USER, _assistant(thinking="r", content="a"), USER],
    "no calls": [USER, _assistant(content="a", tool_calls=[]), USER],
    "null calls": [USER, _assistant(content="a", tool_calls=None), USER],
    "a call": _with_call(),
    "a call beside reasoning": _with_call(reasoning="r", content="c"),
    "unknown keys of a call": _with_call(call={"index": 0, "z": 1}, function={"z": 1}),
    "a custom call": _with_call(call={"type": "custom", "custom": {"name": "f", "input": "x"}}),
    "a call that is a text": [USER, _assistant(content=None, tool_calls=["x"]), USER],
    "a call without a function": _with_call(call={"function": None}),
    "a tool's parts": _with_call(result={"content": _parts("a", "", "b")}),
    "a tool without parts": _with_call(result={"content": []}),
    "a tool's name": _with_call(result={"name": "f", "z": 1}),
    "a tool's null id": _with_call(result={"tool_call_id": None}),
    "a reference to a tool": _with_call(
        result={"content": [{"type": "tool_reference", "name": "f"}, *_parts("a")]}
    ),
    "system messages": [
        {"role": "system", "content": "s"},
        USER,
        {"role": "system", "content": "t"},
    ],
    "a developer": [{"role": "developer", "content": "d"}, USER],
    "a developer with tools": [
        {
            "role": "developer",
            "content": "d",
            "tools": [{"type": "function", "function": {"parameters": {}, "name": "f"}}],
        },
        USER,
    ],
    "a developer after a system message": [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "d"},
        USER,
    ],
    "a developer in the middle": [
        USER,
        _assistant(content="a"),
        {"role": "developer", "content": "d", "name": "n"},
        USER,
    ],
    "a developer's parts": [
        {"role": "developer", "content": _parts("x", "y")},
        {"role": "system", "content": _parts("z", "")},
        USER,
    ],
    "an empty developer": [USER, {"role": "developer", "content": ""}, USER],
    "a billing header": [{"role": "system", "content": f"{_HEADER}\nYou are."}, USER],
    "a billing header alone": [{"role": "system", "content": _HEADER}, USER],
    "a billing header and a newline": [{"role": "system", "content": _HEADER + "\n"}, USER],
    "a billing header as a part": [
        {"role": "system", "content": _parts(_HEADER, "You are.")},
        USER,
    ],
    "a user's billing header": [{"role": "user", "content": f"{_HEADER}\nq"}],
    "a developer's billing header": [{"role": "developer", "content": f"{_HEADER}\nq"}, USER],
    "odd characters": [{"role": "user", "content": "é😀\u2028\u00a0\u200d\t"}],
    "no messages": [],
    "an image": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}
    ],
}

ARGUMENTS = (
    "",
    "{",
    "[1]",
    "42",
    "null",
    '"words"',
    ' {"a": 1} ',
    '{"a": 1, "a": 2}',
    '{"b": 1.0, "a": 1e3, "c": NaN, "d": "\\u00e9\\ud83d\\ude00"}',
    '{"a": {"b": [1, null, true]}}',
    '{"a": 12345678901234567890123}',
    '{"a": 1} x',
)
CASES |= {f"arguments {text!r}": _with_call(arguments=text) for text in ARGUMENTS}

#: What the schema of the HTTP API refuses and we read all the same, for recorded conversations
#: are kept in such forms, and the Responses API prepares its messages by the same code.
LENIENT: dict[str, list[Message]] = {
    "a part without text": [{"role": "user", "content": [{"type": "text", "text": None}]}],
    "a part without a type": [{"role": "user", "content": [{"text": "b"}]}],
    "a part of the Responses API": [
        {"role": "user", "content": [{"type": "input_text", "text": ""}]}
    ],
    "a tool's part that is a text": _with_call(result={"content": ["a"]}),
    "a name that is a number": [{"role": "user", "name": 5, "content": "q"}],
    "arguments that are an object": _with_call(arguments={"a": 1}),
    "null arguments": _with_call(arguments=None),
    "a call without an id": _with_call(call={"id": None}),
    "a call without a type": [
        USER,
        _assistant(
            content="", tool_calls=[{"id": "1", "function": {"name": "f", "arguments": ""}}]
        ),
        USER,
    ],
    "a tool's id that is a number": _with_call(result={"tool_call_id": 1}),
}
