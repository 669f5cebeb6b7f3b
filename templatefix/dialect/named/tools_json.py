"""Layouts that carry a call as JSON, read by vLLM's older parsers with regular expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from templatefix.chat.answer import ToolCall

from .grammar import Found, Slot, content_beside
from .schema import Tools, dump, fit
from .tool import Reading

_HERMES = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)


def read_hermes(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    """hermes: whole completions are parsed and dumped again; a stream passes the raw slice on."""
    content, opened, _ = text.partition("<tool_call>")
    if not opened:
        return text, (), False
    bodies = [found[1] or found[2] or "" for found in _HERMES.finditer(text)]
    if streaming:
        calls = tuple(call for body in bodies if (call := _hermes_slice(body.strip())))
        return content or None, calls, bool(calls)
    try:
        loaded = [json.loads(body) for body in bodies]
        calls = tuple(ToolCall(call["name"], dump(call["arguments"])) for call in loaded)
    except (ValueError, KeyError, TypeError):
        return text, (), False
    return content or None, calls, True


def _hermes_slice(body: str) -> ToolCall | None:
    name = re.search(r'"name"\s*:\s*"([^"]+)"', body)
    if name is None:
        return None
    found = re.search(r'"arguments"\s*:\s*', body)
    if found is None:
        return ToolCall(name[1], "")
    raw = body[found.end() :].rstrip()
    return ToolCall(name[1], raw[:-1].rstrip() if raw.endswith("}") else raw)


def write_hermes(calls: Sequence[ToolCall], ordinal: int) -> str:
    return "\n".join(
        f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'
        for call in calls
    )


def read_granite4(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    """granite4: as hermes, but text after a call is content and a string stays as it is."""
    pieces = re.split(r"(</?tool_call>)", text)
    content, calls, inside = [], [], False
    try:
        for position, piece in enumerate(pieces):
            if piece in ("<tool_call>", "</tool_call>"):
                if inside == (piece == "<tool_call>"):
                    return text, (), False
                inside = not inside
            elif not inside:
                content.append(piece)
            elif position + 1 == len(pieces):
                return text, (), False
            else:
                call = json.loads(piece)
                arguments = call["arguments"]
                calls.append(
                    ToolCall(
                        call["name"], arguments if isinstance(arguments, str) else dump(arguments)
                    )
                )
    except (ValueError, KeyError, TypeError):
        return text, (), False
    if not calls:
        return text, (), False
    return "".join(content) or None, tuple(calls), True


def read_llama3(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    """llama3_json: every outermost JSON object must be a call; all text around them is lost.

    A stream reads calls only where the text begins with one.
    """
    if streaming and not text.startswith(("{", "<|python_tag|>")):
        return text, (), False
    decoder = json.JSONDecoder()
    calls: list[ToolCall] = []
    end = -1
    for found in re.finditer(r"\{", text):
        if found.start() <= end:
            continue
        try:
            value, length = decoder.raw_decode(text[found.start() :])
            end = found.start() + length
            arguments = value["arguments"] if "arguments" in value else value["parameters"]
            calls.append(ToolCall(value["name"], dump(arguments)))
        except (ValueError, KeyError, TypeError):
            return text, (), False
    return (None, tuple(calls), True) if calls else (text, (), False)


def write_llama3(calls: Sequence[ToolCall], ordinal: int) -> str:
    return "; ".join(f'{{"name": "{c.name}", "parameters": {c.arguments}}}' for c in calls)


DEEPSEEK_CALLS = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
DEEPSEEK_CALL = ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>")
# Neither lets an argument text span lines: a call written so is lost (vLLM 0.32.0).
_DEEPSEEK_V3 = re.compile(
    r"<｜tool▁call▁begin｜>.*<｜tool▁sep｜>(.*)\n```json\n(.*)\n```<｜tool▁call▁end｜>"
)
_DEEPSEEK_V31 = re.compile(r"<｜tool▁call▁begin｜>(.*?)<｜tool▁sep｜>(.*?)<｜tool▁call▁end｜>")


def _read_deepseek(text: str, pattern: re.Pattern[str], streaming: bool) -> Reading:
    """A stream lets all text outside the calls through, newlines between them included."""
    content, opened, _ = text.partition(DEEPSEEK_CALLS[0])
    if not opened:
        return text, (), False
    calls = tuple(ToolCall(found[1], found[2]) for found in pattern.finditer(text))
    if streaming:
        begin, _, end = DEEPSEEK_CALL
        around = re.sub(f"{begin}.*?{end}", "", text, flags=re.DOTALL)
        content = around.replace(DEEPSEEK_CALLS[0], "").replace(DEEPSEEK_CALLS[1], "")
    return content or None, calls, True


def read_deepseek_v3(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    return _read_deepseek(text, _DEEPSEEK_V3, streaming)


def read_deepseek_v31(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    return _read_deepseek(text, _DEEPSEEK_V31, streaming)


def write_deepseek_v3(calls: Sequence[ToolCall], ordinal: int) -> str:
    begin, separator, end = DEEPSEEK_CALL
    written = "\n".join(
        f"{begin}function{separator}{call.name}\n```json\n{call.arguments}\n```{end}"
        for call in calls
    )
    return DEEPSEEK_CALLS[0] + written + DEEPSEEK_CALLS[1]


def write_deepseek_v31(calls: Sequence[ToolCall], ordinal: int) -> str:
    begin, separator, end = DEEPSEEK_CALL
    written = "".join(f"{begin}{call.name}{separator}{call.arguments}{end}" for call in calls)
    return DEEPSEEK_CALLS[0] + written + DEEPSEEK_CALLS[1]


def read_mistral_array(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    """mistral with a tokenizer that has no ``[ARGS]``: a JSON array behind the marker."""
    content, opened, after = text.partition("[TOOL_CALLS]")
    if not opened:
        return text, (), False
    if streaming:
        bodies: list[Slot] = []
        _array_bodies(after.lstrip(), bodies)
        slices = tuple(call for slot in bodies if (call := _granite_call(slot.body, None)))
        return content or None, slices, False
    written = next((part.strip() for part in after.split("[TOOL_CALLS]") if part.strip()), "")
    parsed = _first_value(written)
    entries = [parsed] if isinstance(parsed, dict) else parsed if isinstance(parsed, list) else []
    calls = tuple(_array_call(e) for e in entries if isinstance(e, dict) and _is_call(e))
    if not calls:
        return written, (), False
    return content or None, calls, True


def _first_value(written: str) -> Any:
    try:
        return json.JSONDecoder().raw_decode(written)[0]
    except ValueError:
        found = re.search(r"\[{.*}\]", written, re.DOTALL)
    try:
        return json.loads(found[0]) if found else None
    except ValueError:
        return None


def _is_call(entry: dict[str, Any]) -> bool:
    return "name" in entry or "arguments" in entry


def _array_call(entry: dict[str, Any]) -> ToolCall:
    name, arguments = entry.get("name"), entry.get("arguments")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):
        arguments = dump(arguments)
    return ToolCall(name if isinstance(name, str) else "", arguments)


def json_entries(calls: Sequence[ToolCall], ordinal: int) -> str:
    return ", ".join(f'{{"name": "{c.name}", "arguments": {c.arguments}}}' for c in calls)


def read_granite(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    """granite: a marker and a JSON array; arguments are the raw text of the object."""
    parts: list[str] = []
    bodies: list[Slot] = []
    rest, first = text, 0
    while found := re.search(r"<\|tool_call\|>|<tool_call>", rest):
        parts.append(rest[: found.start()])
        rest = _array_bodies(rest[found.end() :].lstrip(" \t\r\n"), bodies)
        if not first and bodies:
            first = len(parts)
    parts.append(rest)
    calls = tuple(call for slot in bodies if (call := _granite_call(slot.body, tools)))
    around = Found("".join(parts[:first]), "".join(parts[first:]), bodies)
    called = bool(calls)
    return content_beside(around, called, streaming=streaming, strips=True), calls, called


def _array_bodies(text: str, bodies: list[Slot]) -> str:
    """Collects the array's objects; returns the text after it, or after what is no array."""
    if not text.startswith("["):
        return text
    position = 1
    while position < len(text):
        character = text[position]
        if character == "]":
            return text[position + 1 :]
        if character == "{":
            end = object_end(text, position)
            bodies.append(Slot(body=text[position:end]))
            position = end
        elif character in " \t\r\n,":
            position += 1
        else:
            return text[position:]
    return ""


def object_end(text: str, start: int) -> int:
    """The index after the JSON object or array that begins at ``start``; the end when cut."""
    depth, in_string, escaped = 0, False, False
    for position in range(start, len(text)):
        character = text[position]
        if escaped:
            escaped = False
        elif in_string:
            escaped = character == "\\"
            in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if depth == 0:
                return position + 1
    return len(text)


def _granite_call(body: str, tools: Tools) -> ToolCall | None:
    name = re.search(r'"name"\s*:\s*"([^"]+)"', body)
    if name is None:
        return None
    return ToolCall(name[1], fit(_member(body, "arguments") or "{}", name[1], tools))


def _member(body: str, key: str) -> str | None:
    """The raw text of an object-valued member of the outermost object."""
    depth, position, last = 0, 0, None
    while position < len(body):
        character = body[position]
        if character == '"':
            closing = position + 1
            while closing < len(body) and body[closing] != '"':
                closing += 2 if body[closing] == "\\" else 1
            if depth == 1:
                last = body[position + 1 : closing]
            position = closing
        elif character == ":" and depth == 1 and last == key:
            start = len(body) - len(body[position + 1 :].lstrip(" \t\r\n"))
            return body[start : object_end(body, start)]
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
        position += 1
    return None
