"""How calls are written and read, layout by layout."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.chat.answer import ToolCall
from templatefix.dialect.named import TOOLS
from tests.dialect.pairs import TOOLS_ASKED

ONE = (ToolCall("ring", '{"text": "x", "count": 2}'),)

WRITTEN = {
    "hermes": '<tool_call>\n{"name": "ring", "arguments": {"text": "x", "count": 2}}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=ring>\n<parameter=text>\nx\n</parameter>\n"
    "<parameter=count>\n2\n</parameter>\n</function>\n</tool_call>",
    "mimo": "<tool_call>\n<function=ring>\n<parameter=text>x</parameter>\n"
    "<parameter=count>2</parameter>\n</function>\n</tool_call>",
    "glm45": "<tool_call>ring\n<arg_key>text</arg_key>\n<arg_value>x</arg_value>\n"
    "<arg_key>count</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
    "glm47": "<tool_call>ring<arg_key>text</arg_key><arg_value>x</arg_value>"
    "<arg_key>count</arg_key><arg_value>2</arg_value></tool_call>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="ring">\n<parameter name="text">x</parameter>'
    '\n<parameter name="count">2</parameter>\n</invoke>\n</minimax:tool_call>',
    "deepseek_v4": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="ring">\n'
    '<｜DSML｜parameter name="text" string="true">x</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="count" string="false">2</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ring<｜tool▁sep｜>"
    '{"text": "x", "count": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "mistral": '[TOOL_CALLS]ring[ARGS]{"text": "x", "count": 2}',
    "mistral-array": '[TOOL_CALLS] [{"name": "ring", "arguments": {"text": "x", "count": 2}}]',
    "llama3_json": '{"name": "ring", "parameters": {"text": "x", "count": 2}}',
    "granite": '<|tool_call|>[{"name": "ring", "arguments": {"text": "x", "count": 2}}]',
    "gemma4": '<|tool_call>call:ring{text:<|"|>x<|"|>,count:2}<tool_call|>',
    "lfm2": '<|tool_call_start|>[ring(text="x", count=2)]<|tool_call_end|>',
    "olmo3": '<function_calls>ring(text="x", count=2)</function_calls>',
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_call_is_written_in_the_format_and_read_back(name: str) -> None:
    tool = TOOLS[name]
    assert tool.completion(ONE) == WRITTEN[name]
    assert tool.completion(ONE).startswith(tool.open)
    assert tool.parse(WRITTEN[name], TOOLS_ASKED) == (None, ONE)


def test_no_calls_are_no_text() -> None:
    assert all(tool.completion(()) == "" for tool in TOOLS.values())


@pytest.mark.parametrize("name", ["qwen3_coder", "glm45", "minimax_m2", "gemma4"])
def test_without_a_schema_every_value_is_a_text(name: str) -> None:
    _, (call,) = TOOLS[name].parse(WRITTEN[name], None)
    assert call.arguments == '{"text": "x", "count": "2"}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("qwen3_coder", "ok"),
        ("kimi_k2", "\n ok\n"),
        ("deepseek_v4", "\n ok\n"),
        ("hermes", "\n ok\n"),
    ],
)
def test_whitespace_of_content_beside_a_call(name: str, content: str) -> None:
    tool = TOOLS[name]
    text = "\n ok\n" + tool.completion(ONE)
    assert tool.parse(text, TOOLS_ASKED)[0] == content
    assert tool.parse(text, TOOLS_ASKED, streaming=True)[0] == "\n ok\n"


@pytest.mark.parametrize(("name", "streamed"), [("hermes", "\n\n"), ("qwen3_coder", None)])
def test_blank_content_before_a_call(name: str, streamed: str | None) -> None:
    tool = TOOLS[name]
    text = "\n\n" + tool.completion(ONE)
    assert tool.parse(text, TOOLS_ASKED)[0] is None
    assert tool.parse(text, TOOLS_ASKED, streaming=True)[0] == streamed


def test_a_whole_answer_loses_text_after_the_first_call() -> None:
    tool = TOOLS["qwen3_coder"]
    text = "a" + tool.completion(ONE) + "b"
    assert tool.parse(text, TOOLS_ASKED)[0] == "a"
    assert tool.parse(text, TOOLS_ASKED, streaming=True)[0] == "ab"


@pytest.mark.parametrize("name", ["glm45", "minimax_m2"])
def test_a_call_of_an_unknown_tool_vanishes(name: str) -> None:
    text = "a" + TOOLS[name].completion((ToolCall("other", "{}"),))
    assert TOOLS[name].parse(text, TOOLS_ASKED) == ("a", ())


@pytest.mark.parametrize("name", ["deepseek_v3", "deepseek_v31"])
def test_arguments_on_several_lines_are_lost(name: str) -> None:
    text = "a" + TOOLS[name].completion((ToolCall("ring", '{\n"text": "x"\n}'),))
    assert TOOLS[name].parse(text, TOOLS_ASKED) == ("a", ())


@pytest.mark.parametrize("name", ["hermes", "llama3_json", "granite4"])
def test_a_call_that_is_no_json_leaves_the_text_whole(name: str) -> None:
    text = "a" + TOOLS[name].completion((ToolCall("ring", "{oops"),))
    assert TOOLS[name].parse(text, TOOLS_ASKED) == (text, ())


def test_wrong_values_are_fitted_to_the_schema_and_only_then_dumped_again() -> None:
    tool = TOOLS["kimi_k2"]

    def arguments(written: str) -> str:
        _, (call,) = tool.parse(tool.completion((ToolCall("ring", written),)), TOOLS_ASKED)
        return call.arguments

    assert arguments('{"count":2}') == '{"count":2}'
    assert arguments('{"count":"2"}') == '{"count": 2}'


SCHEMAS: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"type": "integer"}, "7", "7"),
    ({"type": "integer"}, "x", '"x"'),
    ({"type": "number"}, "1.0", "1"),
    ({"type": "number"}, "1e999", '"1e999"'),
    ({"type": "boolean"}, "True", "true"),
    ({"type": ["string", "null"]}, "null", "null"),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "7", "7"),
    ({"enum": [1, 2]}, "2", "2"),
    ({"type": "object"}, '{"a": 1}', '{"a": 1}'),
    ({"type": "float"}, "2.5", "2.5"),
    ({}, "7", '"7"'),
)


@pytest.mark.parametrize(("schema", "written", "value"), SCHEMAS)
def test_a_schema_decides_how_a_value_is_read(
    schema: dict[str, Any], written: str, value: str
) -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {"v": schema}}}
    text = f"<tool_call>\n<function=f>\n<parameter=v>\n{written}\n</parameter>\n</function>\n"
    _, (call,) = TOOLS["qwen3_coder"].parse(text, [{"type": "function", "function": function}])
    assert call.arguments == f'{{"v": {value}}}'


def test_a_layout_may_share_its_flag_with_another() -> None:
    assert {TOOLS["mistral"].flag, TOOLS["mistral-array"].flag} == {"mistral"}
