"""Layouts that vLLM reads with its parser engine: XML-like values, and JSON behind markers."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from templatefix.chat.answer import ToolCall

from .grammar import Grammar, Move, Slot, State, content_beside, read, reasoning_moves
from .schema import Tools, dump, fit, functions
from .tool import Reading

#: ``converter(body, name, tools)``: the text of the arguments to JSON text.
Converter = Callable[[str, str, Tools], str]


@dataclass(frozen=True)
class EngineReader:
    """Reads calls by a grammar, as vLLM's engine does after the reasoning pass."""

    grammar: Grammar
    convert: Converter
    name_of: Callable[[str], str] = str.strip
    known_names_only: bool = False
    strips_content: bool = True
    nameless: bool = False  # a call without a name is passed on
    raw_in_stream: bool = False  # a stream passes arguments on untouched, schema or not

    def __call__(self, text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
        found = read(self.grammar, text, tags_are_text=tags_are_text)
        calls = tuple(
            call for slot in found.slots if (call := self._call(slot, tools, streaming)) is not None
        )
        called = bool(calls)
        content = content_beside(found, called, streaming=streaming, strips=self.strips_content)
        return content, calls, called

    def _call(self, slot: Slot, tools: Tools, streaming: bool) -> ToolCall | None:
        if not slot.name and not slot.body:
            return None
        name = self.name_of(slot.name)
        if not slot.body.strip():
            arguments = "{}"
        elif name or self.nameless:
            arguments = self.convert(slot.body, name, tools)
        else:
            name, arguments = _envelope(slot.body)
        known = functions(tools)
        if (not name and not self.nameless) or (
            self.known_names_only and known and name not in known
        ):
            return None
        if streaming and self.raw_in_stream:
            return ToolCall(name, slot.body)
        return ToolCall(name, fit(arguments, name, tools))


def _envelope(body: str) -> tuple[str, str]:
    """A call whose name stands inside its JSON body."""
    try:
        value = json.loads(body.strip())
    except ValueError:
        return "", body.strip()
    if not isinstance(value, dict):
        return "", body.strip()
    for key in ("arguments", "parameters"):
        if key in value:
            inner = value[key]
            return value.get("name", ""), inner if isinstance(inner, str) else dump(inner)
    name = value.pop("name", "")
    return name, dump(value)


# --- <function=..><parameter=..> -----------------------------------------------------------------

_PARAMETER = re.compile(
    r"<\s*parameter\s*=\s*([^>]*)>(.*?)(?:<\s*/\s*parameter\s*>|(?=<\s*parameter\s*=))", re.DOTALL
)


def parameters_trimmed(body: str, name: str, tools: Tools) -> str:
    return dump({m[1]: m[2].removeprefix("\n").removesuffix("\n") for m in _trim(body)})


def parameters_verbatim(body: str, name: str, tools: Tools) -> str:
    return dump({m[1]: m[2] for m in _trim(body)})


def _trim(body: str) -> list[re.Match[str]]:
    return list(_PARAMETER.finditer(body))


def function_grammar(
    opening: str = "<tool_call>", closing: str = "</tool_call>", think: str = "think"
) -> Grammar:
    into = Move(State.PREAMBLE, starts=True)
    begin, end = "<function=", "</function>"
    moves = {
        (State.CONTENT, opening): into,
        (State.CONTENT, begin): Move(State.NAME, starts=True),
        (State.PREAMBLE, closing): Move(State.CONTENT),
        (State.PREAMBLE, begin): Move(State.NAME),
        (State.NAME, ">"): Move(State.ARGUMENTS),
        (State.NAME, end): Move(State.BETWEEN),
        (State.ARGUMENTS, end): Move(State.BETWEEN),
        (State.BETWEEN, closing): Move(State.CONTENT),
        (State.BETWEEN, opening): into,
        (State.BETWEEN, begin): Move(State.NAME, starts=True),
        **reasoning_moves(f"<{think}>", f"</{think}>", reopens=False, tool_tags={}),
    }
    return Grammar(moves, (f"<{think}>", f"</{think}>"))


# --- <arg_key>..<arg_value>.. --------------------------------------------------------------------

_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


def pairs(body: str, name: str, tools: Tools) -> str:
    return dump({m[1].strip(): m[2] for m in _PAIR.finditer(body)})


def pair_grammar() -> Grammar:
    into = Move(State.NAME, starts=True)
    moves = {
        (State.CONTENT, "<tool_call>"): into,
        (State.NAME, "<arg_key>"): Move(State.ARGUMENTS, keeps=True),
        (State.NAME, "</tool_call>"): Move(State.CONTENT),
        (State.ARGUMENTS, "</tool_call>"): Move(State.CONTENT),
        **reasoning_moves("<think>", "</think>", reopens=True, tool_tags={"<tool_call>": into}),
    }
    return Grammar(moves, ("<think>", "</think>"))


# --- <invoke name=..><parameter name=..> ---------------------------------------------------------

_NAMED = re.compile(
    r"<\s*parameter\s+name\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^>\s]+))\s*>(.*?)"
    r"(?:<\s*/\s*parameter\s*>|(?=<\s*parameter\s+name\s*=))",
    re.DOTALL,
)


def named_parameters(body: str, name: str, tools: Tools) -> str:
    found = (((m[1] or m[2] or m[3] or "").strip(), m[4]) for m in _NAMED.finditer(body))
    return dump({key: value for key, value in found if key})


def invoke_grammar(opening: str, closing: str) -> Grammar:
    into = Move(State.PREAMBLE)
    moves = {
        (State.CONTENT, opening): into,
        (State.CONTENT, closing): Move(State.CONTENT),
        (State.PREAMBLE, closing): Move(State.CONTENT),
        (State.BETWEEN, closing): Move(State.CONTENT),
        (State.ARGUMENTS, "</invoke>"): Move(State.BETWEEN),
        **reasoning_moves("<think>", "</think>", reopens=False, tool_tags={}),
    }
    for quote in ('"', "'", ""):
        moves[State.NAME, f"{quote}>"] = Move(State.ARGUMENTS)
        for state in (State.CONTENT, State.PREAMBLE, State.BETWEEN):
            moves[state, f"<invoke name={quote}"] = Move(State.NAME, starts=True)
    return Grammar(moves, ("<think>", "</think>"))


# --- DSML: <｜DSML｜invoke name=".."><｜DSML｜parameter name=".." string="true"> ----------------

DSML = "｜DSML｜"
_DSML_PARAMETER = re.compile(
    rf'<{DSML}parameter\s+name="([^"]+)"(?:\s+string="([^"]*)")?\s*>(.*?)'
    rf"(?:</{DSML}parameter>|(?=<{DSML}parameter\s+name=))",
    re.DOTALL,
)


def dsml_parameters(body: str, name: str, tools: Tools) -> str:
    values: dict[str, Any] = {}
    for match in _DSML_PARAMETER.finditer(body):
        value: Any = match[3]
        if match[2] != "true":
            with contextlib.suppress(ValueError):
                value = json.loads(value)
        values[match[1]] = value
    return dump(_unwrapped(values, functions(tools).get(name, {}).get("properties") or {}))


def _unwrapped(values: dict[str, Any], allowed: dict[str, Any]) -> dict[str, Any]:
    """An object that a model wrapped into one parameter named ``arguments`` or ``input``."""
    for wrapper in ("arguments", "input"):
        if not allowed or set(values) != {wrapper} or wrapper in allowed:
            continue
        inner = values[wrapper]
        if isinstance(inner, str):
            try:
                inner = json.loads(inner)
            except ValueError:
                return values
        if isinstance(inner, dict) and set(inner) <= set(allowed):
            return inner
    return values


def dsml_grammar(word: str, *spellings: str, reasons: bool) -> Grammar:
    into = Move(State.PREAMBLE)
    openings = {f"<{DSML}{each}>": into for each in (word, *spellings)}
    closing = f"</{DSML}{word}>"
    invoke = f'<{DSML}invoke name="'
    moves = {
        (State.PREAMBLE, invoke): Move(State.NAME, starts=True),
        (State.CONTENT, invoke): Move(State.NAME, starts=True),
        (State.BETWEEN, invoke): Move(State.NAME, starts=True),
        (State.NAME, '">'): Move(State.ARGUMENTS),
        (State.ARGUMENTS, f"</{DSML}invoke>"): Move(State.BETWEEN),
        (State.ARGUMENTS, closing): Move(State.BETWEEN),
        (State.BETWEEN, closing): Move(State.BETWEEN),
    }
    for opening in openings:
        moves[State.CONTENT, opening] = into
        moves[State.BETWEEN, opening] = into
    if reasons:
        moves |= reasoning_moves("<think>", "</think>", reopens=True, tool_tags=openings)
    return Grammar(moves, ("<think>", "</think>"))


# --- JSON behind markers: kimi_k2, mistral -------------------------------------------------------

KIMI_SECTION = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
KIMI_CALL = ("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>")
_KIMI_ID = re.compile(r"(.+:\d+)")


def kimi_name(header: str) -> str:
    """``functions.NAME:INDEX`` names a call; any other header names none."""
    found = _KIMI_ID.match(header.strip())
    return found[1].split(":")[0].removeprefix("functions.") if found else ""


def kimi_grammar() -> Grammar:
    start = Move(State.NAME, starts=True)
    section, over = KIMI_SECTION
    begin, arguments, end = KIMI_CALL
    moves = {
        (State.CONTENT, section): Move(State.PREAMBLE),
        (State.PREAMBLE, begin): start,
        (State.NAME, arguments): Move(State.ARGUMENTS),
        (State.ARGUMENTS, end): Move(State.BETWEEN),
        (State.ARGUMENTS, over): Move(State.PREAMBLE),
        (State.BETWEEN, begin): start,
        (State.PREAMBLE, over): Move(State.PREAMBLE),
        (State.BETWEEN, over): Move(State.PREAMBLE),
        **reasoning_moves("<think>", "</think>", reopens=False, tool_tags={}),
    }
    return Grammar(moves, ("<think>", "</think>"))


def stripped(body: str, name: str, tools: Tools) -> str:
    return body.strip()


def first_json(body: str, name: str, tools: Tools) -> str:
    text = body.strip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return text
    return text[:end]


def mistral_grammar() -> Grammar:
    into = Move(State.NAME, starts=True)
    moves = {
        (State.CONTENT, "[TOOL_CALLS]"): into,
        (State.NAME, "[ARGS]"): Move(State.ARGUMENTS),
        (State.NAME, "{"): Move(State.ARGUMENTS, keeps=True),
        (State.ARGUMENTS, "[TOOL_CALLS]"): into,
        **reasoning_moves("[THINK]", "[/THINK]", reopens=True, tool_tags={"[TOOL_CALLS]": into}),
    }
    return Grammar(moves, ("[THINK]", "[/THINK]"))
