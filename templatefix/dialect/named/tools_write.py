"""How models write calls in the layouts of :mod:`tools_engine`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from templatefix.chat.answer import ToolCall

from .schema import dump
from .tool import members
from .tools_engine import DSML, KIMI_CALL, KIMI_SECTION

Writer = Callable[[Sequence[ToolCall], int], str]


def plain(value: Any) -> str:
    """A text stands as it is, anything else as JSON."""
    return value if isinstance(value, str) else dump(value)


def function_writer(
    opening: str = "<tool_call>", closing: str = "</tool_call>", *, compact: bool = False
) -> Writer:
    """``compact``: no newline around a value."""
    line = "" if compact else "\n"

    def one(call: ToolCall) -> str:
        parameters = "".join(
            f"<parameter={key}>{line}{plain(value)}{line}</parameter>\n"
            for key, value in members(call.arguments).items()
        )
        return f"{opening}\n<function={call.name}>\n{parameters}</function>\n{closing}"

    return lambda calls, ordinal: "\n".join(map(one, calls))


def pair_writer(line: str) -> Writer:
    """``line``: what separates the parts of a call, and the calls."""

    def one(call: ToolCall) -> str:
        pairs = "".join(
            f"<arg_key>{key}</arg_key>{line}<arg_value>{plain(value)}</arg_value>{line}"
            for key, value in members(call.arguments).items()
        )
        return f"<tool_call>{call.name}{line}{pairs}</tool_call>"

    return lambda calls, ordinal: line.join(map(one, calls))


def write_minimax_m2(calls: Sequence[ToolCall], ordinal: int) -> str:
    written = "".join(
        f'<invoke name="{call.name}">\n'
        + "".join(
            f'<parameter name="{key}">{plain(value)}</parameter>\n'
            for key, value in members(call.arguments).items()
        )
        + "</invoke>\n"
        for call in calls
    )
    return f"<minimax:tool_call>\n{written}</minimax:tool_call>"


def dsml_writer(word: str) -> Writer:
    def one(call: ToolCall) -> str:
        parameters = "".join(
            f'<{DSML}parameter name="{key}" string="{json.dumps(isinstance(value, str))}">'
            f"{plain(value)}</{DSML}parameter>\n"
            for key, value in members(call.arguments).items()
        )
        return f'<{DSML}invoke name="{call.name}">\n{parameters}</{DSML}invoke>\n'

    return lambda calls, ordinal: f"<{DSML}{word}>\n{''.join(map(one, calls))}</{DSML}{word}>"


def write_kimi_k2(calls: Sequence[ToolCall], ordinal: int) -> str:
    """The index in a call's id counts the calls of the whole conversation."""
    begin, arguments, end = KIMI_CALL
    written = "".join(
        f"{begin}functions.{call.name}:{index}{arguments}{call.arguments}{end}"
        for index, call in enumerate(calls, ordinal)
    )
    return KIMI_SECTION[0] + written + KIMI_SECTION[1]


def write_mistral(calls: Sequence[ToolCall], ordinal: int) -> str:
    return "".join(f"[TOOL_CALLS]{call.name}[ARGS]{call.arguments}" for call in calls)
