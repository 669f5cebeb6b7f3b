"""Texts for parsers: what models write, in every frame, and what none should."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from templatefix.chat.answer import ToolCall
from templatefix.dialect.named import ReasoningDialect, ToolDialect

ARGUMENTS = (
    "{}",
    '{"text":"x"}',
    '{"text": "a\\nb", "count": 2, "share": 1.0, "sure": true}',
    '{"text":"\\n x \\n","tree":{"k":[1,2.50,"z"]},"list":[1,2]}',
    '{"text": "é<>&\\"\\\\ \\u00fc", "share": 1e3}',
    '{"maybe": null, "other": "7", "more": 3}',
    '{"count": "5", "share": 2.50}',
    '{"text": "</think>"}',
    '{"name": "q", "text": ""}',
)
FRAMES = ("", "ok", "ok\n", "\n\nok\n\n", "\n\n")


def reasoning_texts(reasoning: ReasoningDialect) -> Iterator[str]:
    opening, closing = reasoning.open, reasoning.close
    begin, end = reasoning.content_open, reasoning.content_close
    answer = f"{begin}A{end}"
    yield from (f"{opening}\nr\n{closing}\n\n{answer}", f"{opening}r{closing}{answer}")
    yield f"{opening}\n r \n\n {closing}\n {begin} A \n{end}"
    yield from (f"{opening}r", f"{opening}\n\n{closing}\n\n{answer}", f"{opening}é😀{closing}ß")
    if reasoning.name == "openai_gptoss":
        return  # what is no harmony, vLLM recovers in ways that are not followed
    yield from ("", "A", " A \n", opening, closing, opening + closing, f"{closing}{answer}")
    yield from (f"\nr \n{closing}\n\n{answer}", f"\n{opening}r{closing}{answer}")
    yield from (f"x{opening}r{closing}{answer}", f"{opening}r{closing}A{closing}B")
    yield from (f"{opening}r{closing}A{opening}s{closing}B", f"{opening}r{opening}s{closing}A")
    yield f"{opening}r<tool_call>x</tool_call>"


def call_texts(reasoning: ReasoningDialect | None, tool: ToolDialect) -> Iterator[str]:
    """Calls as the format writes them, in every frame of content and reasoning."""
    harmony = reasoning is not None and reasoning.name == "openai_gptoss"
    opening, closing = (reasoning.open, reasoning.close) if reasoning else ("", "")
    for arguments in ARGUMENTS:
        one = tool.completion((ToolCall("ring", arguments),))
        two = tool.completion((ToolCall("ring", arguments), ToolCall("look_up", "{}")), 3)
        for frame in FRAMES:
            content = frame
            if harmony and frame:
                content = f"<|channel|>commentary<|message|>{frame}<|end|><|start|>assistant"
            yield f"{opening}\nr\n{closing}{content}{one}"
            yield f"{opening}r {closing}{content}{two}"
            if reasoning is not None and not harmony:
                yield f"{closing}{content}{one}"
                yield f"{opening}r {content}{one}"


def special_texts(
    reasoning: ReasoningDialect | None, tool: ToolDialect | None, tokens: Iterable[str]
) -> Iterator[str]:
    """Special tokens inside reasoning, content and arguments."""
    for token in tokens:
        head = f"{reasoning.open}r{token}s{reasoning.close}" if reasoning else ""
        yield f"{head}a{token}b"
        if tool is not None:
            call = ToolCall("ring", f'{{"text": "c{token}d"}}')
            yield f"{head}a{token}b{tool.completion((call,))}"


def odd_texts(reasoning: ReasoningDialect | None, tool: ToolDialect) -> Iterator[str]:
    """Cut, repeated, unknown and empty calls, text after a call, text that imitates markers."""
    if reasoning is not None and reasoning.name == "openai_gptoss":
        header, body = "<|channel|>{} to={}<|message|>", '{"a":1}'
        for channel in ("commentary", "analysis"):
            for to in ("functions.ring", "ring", "python", "browser.search", "assistant"):
                yield header.format(channel, to) + body + "<|call|>"
        yield " to=functions.ring<|channel|>commentary json<|message|>{}<|call|>"
        yield "<|channel|>commentary to=functions.ring code<|message|>{ }<|call|>"
        yield "<|channel|>final<|message|>A<|end|><|start|>assistant<|channel|>final<|message|>B"
        return
    head = reasoning.open + "r" + reasoning.close if reasoning else ""
    one = tool.completion((ToolCall("ring", '{"text": "x"}'),))
    other = tool.completion((ToolCall("other", '{"text": "x"}'),))
    for text in (
        f"{one}\ntail",
        f"a\n{one}\ntail ",
        f"a{one}b{one}c",
        one[:-3],
        one[: len(one) // 2],
        tool.open,
        f"a{tool.open}b",
        other,
        f"a{other}b",
        f"a</think>b{one}",
        f"a<think>b{one}",
        "a<think>b</think>c",
        "text { brace } [x]",
        "<tool_call>{}</tool_call>",
        '<tool_call>{"name": "ring", "arguments": "words"}</tool_call>',
        '{"name": "ring", "arguments": {"text" : 1}} ; {"name":"ring","parameters":{}}',
    ):
        yield head + text
        if head:
            yield text
