"""Layouts that write calls as Python: ``[f(x=1, y="a"), g()]``, as lfm2 and olmo3 do.

Simplified: vLLM also repairs some text that is no Python (nested quotes, reserved words).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from templatefix.chat.answer import ToolCall

from .schema import Tools, dump
from .tool import Reading, members

LFM2 = ("<|tool_call_start|>", "<|tool_call_end|>")
OLMO3 = ("<function_calls>", "</function_calls>")


def calls_in(source: str) -> tuple[ToolCall, ...]:
    """The calls of a Python list display. Raises ``ValueError`` for anything else."""
    try:
        body = ast.parse(source).body
    except SyntaxError as fault:
        raise ValueError(str(fault)) from fault
    listed = getattr(body[0], "value", None) if body else None
    if not isinstance(listed, ast.List):
        raise ValueError("not a list of calls")
    return tuple(_call(element) for element in listed.elts)


def _call(node: ast.expr) -> ToolCall:
    if not isinstance(node, ast.Call):
        raise ValueError("not a call")
    arguments = {word.arg: _value(word.value) for word in node.keywords}
    return ToolCall(ast.unparse(node.func), dump(arguments))


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Dict):
        keys = [getattr(key, "value", None) for key in node.keys]
        return dict(zip(keys, map(_value, node.values), strict=True))
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    words = {"null": None, "true": True, "false": False}
    if isinstance(node, ast.Name) and node.id in words:
        return words[node.id]
    raise ValueError("not a value")


def read_lfm2(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    """lfm2: content around the calls is stripped and joined by a newline."""
    before, opened, after = text.partition(LFM2[0])
    if not opened:
        return text, (), False
    written, closed, trailing = after.partition(LFM2[1])
    trailing = trailing.rpartition(LFM2[1])[2] if closed else ""
    try:
        calls = calls_in(written.strip())
    except ValueError:
        return text, (), False
    if not calls:
        return text, (), False
    if streaming:
        return before or None, calls, True
    content = "\n".join(part for part in (before.strip(), trailing.strip()) if part)
    return content or None, calls, True


def read_olmo3(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    """olmo3: one call a line; all text around the block is lost."""
    found = re.search(r"<function_calls>(.*?)</function_calls>", text, re.DOTALL)
    written = found[1].strip() if found else text
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    try:
        calls = calls_in(f"[{', '.join(lines)}]")
    except ValueError:
        return text, (), False
    return (None, calls, True) if calls else (text, (), False)


def _written(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{k}={dump(v)}' for k, v in members(call.arguments).items())})"


def write_lfm2(calls: Sequence[ToolCall], ordinal: int) -> str:
    return f"{LFM2[0]}[{', '.join(map(_written, calls))}]{LFM2[1]}"


def write_olmo3(calls: Sequence[ToolCall], ordinal: int) -> str:
    return OLMO3[0] + "\n".join(map(_written, calls)) + OLMO3[1]
