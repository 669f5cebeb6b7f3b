"""Both passes together: a parser gives back what a model wrote, up to what it says it loses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.chat.answer import Answer, ToolCall
from templatefix.dialect.named import (
    REASONING,
    TOOLS,
    completion,
    dialects,
    losses,
    parse,
)
from tests.dialect.pairs import (
    ALWAYS_OPENED,
    ASKED,
    NEVER_OPENED,
    PAIRS,
    TOOLS_ASKED,
    answers,
    dialects_of,
    kept,
    meant,
)

#: Parsers that hand the arguments on as the model wrote them.
RAW = ("kimi_k2", "deepseek_v3", "deepseek_v31", "mistral", "granite")


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@settings(max_examples=30, derandomize=True, database=None, deadline=None)
@given(data=st.data())
def test_a_parser_gives_back_the_answer_up_to_its_losses(
    pair: tuple[str | None, str | None], data: st.DataObject
) -> None:
    reasoning, tool = dialects_of(pair)
    answer = data.draw(answers(pair))
    opened = pair[0] in ALWAYS_OPENED
    if answer.reasoning is not None and pair[0] not in ALWAYS_OPENED | NEVER_OPENED:
        opened = data.draw(st.booleans())
    thinking = reasoning.enabled(ASKED) if reasoning else False
    streaming = data.draw(st.booleans()) if tool and tool.name not in ("olmo3", "lfm2") else False
    if tool and tool.name == "llama3_json" and answer.content:
        streaming = False
    written = completion(answer, reasoning, tool, opened=opened, stop="", thinking=thinking)
    got = parse(
        written,
        reasoning,
        tool,
        opened=opened,
        thinking=thinking,
        tools=TOOLS_ASKED if tool else None,
        streaming=streaming,
    )
    assert meant(kept(got, reasoning, tool, streaming), tool) == meant(
        kept(answer, reasoning, tool, streaming), tool
    )


@pytest.mark.parametrize("name", RAW)
def test_raw_arguments_stay_as_they_were_written(name: str) -> None:
    odd = '{"text":"\\u00e9",  "share": 2.50e0 }'
    tool = TOOLS[name]
    _, calls = tool.parse(tool.completion((ToolCall("look_up", odd),)), None)
    assert calls == (ToolCall("look_up", odd),)


@pytest.mark.parametrize("name", ["hermes", "openai"])
def test_a_stream_keeps_the_spelling_that_a_whole_answer_loses(name: str) -> None:
    odd = '{"text":"é",  "share": 2.50 }'
    tool = TOOLS[name]
    written = tool.completion((ToolCall("look_up", odd),))
    _, (whole,) = tool.parse(written, TOOLS_ASKED)
    _, (streamed,) = tool.parse(written, TOOLS_ASKED, streaming=True)
    assert streamed.arguments == odd
    text = "é" if name == "hermes" else "\\u00e9"
    assert whole.arguments == f'{{"text": "{text}", "share": 2.5}}'


# What a real server answered (vLLM 0.32.0, --reasoning-parser qwen3 --tool-call-parser hermes).
CALL = '<tool_call>\n{"name": "f", "arguments": {"x":1}}\n</tool_call>'
SEEN: tuple[tuple[str, bool, Answer], ...] = (
    ("<think>\n\n</think>\n\nA", True, Answer("\n\n", "\n\nA")),
    ("A", True, Answer("A", None)),
    ("A", False, Answer(None, "A")),
    (
        f"<think>\nr\n</think>\n\nok\n{CALL}",
        True,
        Answer("\nr\n", "\n\nok\n", (ToolCall("f", '{"x": 1}'),)),
    ),
    (
        f"<think>\nr\n</think>\n\n{CALL}",
        True,
        Answer("\nr\n", None, (ToolCall("f", '{"x": 1}'),)),
    ),
)


@pytest.mark.parametrize(("written", "thinking", "answer"), SEEN)
def test_answers_are_those_of_a_server(written: str, thinking: bool, answer: Answer) -> None:
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f"}}]
    got = parse(
        written,
        REASONING["qwen3"],
        TOOLS["hermes"],
        opened=False,
        thinking=thinking,
        tools=tools,
    )
    assert got == answer


@pytest.mark.parametrize(
    ("name", "answer"),
    [("qwen3", Answer("rs", "ab")), ("deepseek_r1", Answer("r<|im_end|>s", "a<|im_end|>b"))],
)
def test_an_engine_drops_special_tokens_wherever_they_stand(name: str, answer: Answer) -> None:
    text = "<think>r<|im_end|>s</think>a<|im_end|>b"
    got = parse(
        text,
        REASONING[name],
        None,
        opened=False,
        thinking=True,
        tools=None,
        special_tokens=("<|im_end|>", "</think>"),
    )
    assert got == answer


def test_without_tools_an_engine_takes_a_call_out_of_the_content_all_the_same() -> None:
    call = TOOLS["qwen3_coder"].completion((ToolCall("f", "{}"),))
    text = f"<think>r</think>A\n{call}"
    qwen3 = REASONING["qwen3"]

    def without_tools(tool: str) -> Answer:
        return parse(text, qwen3, TOOLS[tool], opened=False, thinking=True, tools=None)

    assert without_tools("qwen3_coder") == Answer("r", "A")
    assert without_tools("hermes") == Answer("r", f"A\n{call}")


def test_the_second_call_of_a_conversation_goes_on_counting() -> None:
    written = completion(
        Answer("r", None, (ToolCall("f", "{}"),)),
        REASONING["kimi_k2"],
        TOOLS["kimi_k2"],
        opened=True,
        stop="<|im_end|>",
        ordinal=2,
    )
    assert written == (
        "r</think><|tool_calls_section_begin|><|tool_call_begin|>functions.f:2"
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|><|im_end|>"
    )


def test_harmony_writes_a_call_in_the_commentary_and_content_in_the_final_channel() -> None:
    reasoning, tool = REASONING["openai_gptoss"], TOOLS["openai"]
    call = Answer("r", None, (ToolCall("f", "{}"),))
    assert completion(call, reasoning, tool, opened=False, stop="<|call|>") == (
        "<|channel|>analysis<|message|>r<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
    )
    final = completion(Answer("r", "A"), reasoning, tool, opened=False, stop="<|return|>")
    assert final.endswith("<|start|>assistant<|channel|>final<|message|>A<|return|>")


def test_losses_are_said_once_and_for_both_passes() -> None:
    said = losses(REASONING["glm45"], TOOLS["glm45"])
    assert len(said) == len(set(said))
    assert any("closing tag of the reasoning" in loss for loss in said)
    assert any("dumped again" in loss for loss in said)
    assert losses(None, None) == ()


def test_every_dialect_says_what_it_loses() -> None:
    reasoning, tools = dialects()
    assert all(dialect.losses for dialect in reasoning.values())
    assert all(dialect.losses for dialect in tools.values())
