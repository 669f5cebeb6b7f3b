"""What reasoning parsers keep of whitespace, tags and empty blocks."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.dialect.named import REASONING

# The whitespace around reasoning and content, by parser: <think>␊ r ␊</think>␊␊A
KEPT = {
    "qwen3": ("\n r \n", "\n\nA"),
    "deepseek_r1": ("\n r \n", "\n\nA"),
    "step3": ("<think>\n r \n", "\n\nA"),
    "olmo3": ("\n r \n", "\n\nA"),
    "nemotron_v3": ("\n r", "\n\nA"),
    "step3p5": ("\n r", "\n\nA"),
    "glm45": ("\n r", "\n\nA"),
    "minimax_m2": ("\n r", "\n\nA"),
    "kimi_k2": ("\n r", "\n\nA"),
    "deepseek_v4": ("\n r", "\n\nA"),
    "granite_thinking_parser": ("\n r", "A"),
    "minimax_m2_append_think": (None, "<think><think>\n r \n</think>\n\nA"),
}


@pytest.mark.parametrize("name", KEPT)
def test_whitespace_around_the_tags(name: str) -> None:
    text = "<think>\n r \n</think>\n\nA"
    assert REASONING[name].parse(text, opened=False, thinking=True) == KEPT[name]


@pytest.mark.parametrize("name", [name for name in KEPT if not name.endswith("append_think")])
def test_an_opening_tag_may_be_missing(name: str) -> None:
    reasoning, content = REASONING[name].parse("r</think>A", opened=True, thinking=True)
    assert (reasoning, content) == ("r", "A")


@pytest.mark.parametrize(
    ("name", "empty"), [("qwen3", None), ("glm45", None), ("deepseek_r1", ""), ("step3", "")]
)
def test_an_empty_block(name: str, empty: str | None) -> None:
    assert REASONING[name].parse("</think>A", opened=True, thinking=True) == (empty, "A")


@pytest.mark.parametrize(
    ("name", "answer"),
    [("qwen3", ("A", None)), ("deepseek_r1", ("A", None)), ("olmo3", (None, "A"))],
)
def test_text_without_a_block(name: str, answer: tuple[str | None, str | None]) -> None:
    assert REASONING[name].parse("A", opened=False, thinking=True) == answer


def test_a_call_ends_reasoning_without_a_closing_tag() -> None:
    text = "<think>r<tool_call>x</tool_call>"
    assert REASONING["qwen3"].parse(text, opened=False, thinking=True) == (
        "r",
        "<tool_call>x</tool_call>",
    )


def test_a_stream_reads_no_further_than_the_end_of_the_reasoning() -> None:
    text = "r</think>A</think>B"
    parser = REASONING["qwen3"]
    assert parser.parse(text, opened=True, thinking=True) == ("r", "AB")
    assert parser.parse(text, opened=True, thinking=True, streaming=True) == ("r", "A</think>B")


SWITCHES: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("qwen3", {}, True),
    ("qwen3", {"enable_thinking": False}, False),
    ("qwen3", {"thinking": False}, True),
    ("glm45", {"thinking": False}, False),
    ("glm45", {"thinking": False, "enable_thinking": True}, True),
    ("deepseek_v3", {}, False),
    ("deepseek_v3", {"thinking": True}, True),
    ("holo2", {}, True),
    ("deepseek_v4", {"reasoning_effort": "none"}, False),
    ("deepseek_v4", {}, True),
    ("hy_v3", {"reasoning_effort": "high"}, True),
    ("hy_v3", {}, False),
    ("step3p5", {"enable_thinking": False}, True),
    ("deepseek_r1", {"enable_thinking": False}, True),
)


@pytest.mark.parametrize(("name", "kwargs", "on"), SWITCHES)
def test_kwargs_switch_a_parser(name: str, kwargs: dict[str, Any], on: bool) -> None:
    assert REASONING[name].enabled(kwargs) is on


def test_the_usual_whitespace_is_written_where_the_parser_drops_it() -> None:
    nemotron = REASONING["nemotron_v3"]
    assert nemotron.completion("\nr", opened=False) == "<think>\nr\n</think>"
    assert nemotron.completion("r\n", opened=True) == "r\n</think>"
    assert REASONING["qwen3"].completion("\nr", opened=False) == "<think>\nr</think>"


def test_leading_whitespace_stands_before_the_tag_where_the_format_writes_it_there() -> None:
    assert REASONING["glm45"].completion("\nr", opened=False) == "\n<think>r</think>"


@pytest.mark.parametrize(
    ("name", "thinking", "text"),
    [("qwen3", True, "<think></think>"), ("qwen3", False, ""), ("olmo3", True, "")],
)
def test_no_reasoning_needs_a_block_only_where_text_would_be_taken_for_it(
    name: str, thinking: bool, text: str
) -> None:
    assert REASONING[name].completion(None, opened=False, thinking=thinking) == text
