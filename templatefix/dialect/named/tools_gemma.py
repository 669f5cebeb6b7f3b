"""gemma4: ``<|tool_call>call:NAME{key:<|"|>text<|"|>,count:1}<tool_call|>``.

Values are written without JSON: a quoted text, an object, an array, or a bare word.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from templatefix.chat.answer import ToolCall

from .grammar import Grammar, Move, State, reasoning_moves
from .schema import Tools, dump
from .tool import members

QUOTE = '<|"|>'
CALL = ("<|tool_call>", "<tool_call|>")


def gemma_grammar() -> Grammar:
    into = Move(State.PREAMBLE, starts=True)
    opening, closing = CALL
    moves = {
        (State.CONTENT, opening): into,
        (State.CONTENT, closing): Move(State.CONTENT),
        (State.PREAMBLE, closing): Move(State.CONTENT),
        (State.PREAMBLE, "call:"): Move(State.NAME),
        (State.PREAMBLE, ":"): Move(State.NAME),
        (State.NAME, "{"): Move(State.ARGUMENTS),
        (State.NAME, "("): Move(State.ARGUMENTS),
        (State.NAME, closing): Move(State.CONTENT),
        (State.ARGUMENTS, closing): Move(State.CONTENT),
        **reasoning_moves("<|channel>", "<channel|>", reopens=True, tool_tags={opening: into}),
    }
    return Grammar(moves, ("<|channel>", "<channel|>"))


def gemma_values(body: str, name: str, tools: Tools) -> str:
    text = body.strip()
    if text.endswith("}") or (text.endswith(")") and text.count("(") < text.count(")")):
        text = text[:-1]
    return dump(_Values(text).members())


class _Values:
    """Reads members and items from left to right; stops quietly where the text makes no sense."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def members(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._skip(" ,\n\t"):
            colon = self.text.find(":", self.position)
            if colon < 0:
                break
            key = self.text[self.position : colon].strip()
            if key.startswith(QUOTE) and key.endswith(QUOTE):
                key = key[len(QUOTE) : -len(QUOTE)]
            self.position = colon + 1
            if not self._skip(" \n\t"):
                found[key] = ""
                break
            before = self.position
            value = self._value(",}]")
            if self.position == before:
                break
            found[key] = value
        return found

    def items(self) -> list[Any]:
        found: list[Any] = []
        while self._skip(" ,\n\t"):
            before = self.position
            value = self._value(",]")
            if self.position == before:
                break
            found.append(value)
        return found

    def _skip(self, characters: str) -> bool:
        while self.position < len(self.text) and self.text[self.position] in characters:
            self.position += 1
        return self.position < len(self.text)

    def _value(self, stops: str) -> Any:
        text = self.text
        if text.startswith(QUOTE, self.position):
            start = self.position + len(QUOTE)
            end = text.find(QUOTE, start)
            self.position = len(text) if end < 0 else end + len(QUOTE)
            return text[start:] if end < 0 else text[start:end]
        if text[self.position] in "{[":
            opening = text[self.position]
            start = self.position + 1
            self.position = _closing(text, self.position)
            closed = text[self.position - 1] in "}]"
            inner = _Values(text[start : self.position - 1 if closed else self.position])
            return inner.members() if opening == "{" else inner.items()
        start = self.position
        while self.position < len(text) and text[self.position] not in stops:
            self.position += 1
        return text[start : self.position].strip()


def _closing(text: str, start: int) -> int:
    """The index after the bracket that closes the one at ``start``; quoted text does not count."""
    opening, closing = text[start], {"{": "}", "[": "]"}[text[start]]
    depth, position = 0, start
    while position < len(text):
        if text.startswith(QUOTE, position):
            end = text.find(QUOTE, position + len(QUOTE))
            position = len(text) if end < 0 else end + len(QUOTE)
            continue
        depth += (text[position] == opening) - (text[position] == closing)
        position += 1
        if depth == 0:
            break
    return position


def write_gemma(calls: Sequence[ToolCall], ordinal: int) -> str:
    return "".join(
        f"{CALL[0]}call:{call.name}{_written(members(call.arguments))}{CALL[1]}" for call in calls
    )


def _written(value: Any) -> str:
    if isinstance(value, str):
        return f"{QUOTE}{value}{QUOTE}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)
