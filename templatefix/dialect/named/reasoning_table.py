"""The reasoning dialects by the name of their vLLM ``--reasoning-parser``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from .harmony import content_of_harmony, split_harmony
from .reasoning import (
    Partitioned,
    ReasoningDialect,
    Spelling,
    Tagged,
    always,
    first_lines_dropped,
    split_at_first_close,
    split_by_answer_tags,
    split_by_channel,
    split_by_channel_streamed,
    split_by_response_tags,
    split_by_sentences,
    split_nothing,
    split_when_closed,
    swapped_when_empty,
    until_end,
)
from .reasoning_channels import (
    K3_RESPONSE,
    K3_THINK,
    content_of_kimi_k3,
    split_kimi_k3,
    split_minimax_m3,
)

OPEN, CLOSE = "<think>", "</think>"
TIGHT = Spelling("", "", "")

TAIL = "whitespace before the closing tag of the reasoning"
EMPTY = "an empty reasoning block (it comes back as no reasoning)"
SECOND_TAG = "a second closing tag"
OPENED = "reasoning whose opening tag the prompt printed (it becomes content)"
GAP = "newlines between the closing tag and the content"


def on_unless_false(kwargs: Mapping[str, Any]) -> bool:
    return bool(kwargs.get("enable_thinking", True))


def _either(kwargs: Mapping[str, Any], default: bool) -> bool:
    asked = [kwargs.get("thinking"), kwargs.get("enable_thinking")]
    return default if asked == [None, None] else any(asked)


def on_by_default(kwargs: Mapping[str, Any]) -> bool:
    return _either(kwargs, True)


def off_by_default(kwargs: Mapping[str, Any]) -> bool:
    return _either(kwargs, False)


def on_without_effort_none(kwargs: Mapping[str, Any]) -> bool:
    named = "thinking" in kwargs or "enable_thinking" in kwargs
    return _either(kwargs, not named) and kwargs.get("reasoning_effort") != "none"


def thinking_first(kwargs: Mapping[str, Any]) -> bool:
    thinking = kwargs.get("thinking")
    return bool(kwargs.get("enable_thinking", True) if thinking is None else thinking)


def on_with_effort(kwargs: Mapping[str, Any]) -> bool:
    return (kwargs.get("reasoning_effort") or "no_think") != "no_think"


_QWEN_RSTRIP = Tagged(OPEN, CLOSE, interrupters=("<tool_call>",))

QWEN3 = ReasoningDialect(
    name="qwen3",
    open=OPEN,
    close=CLOSE,
    split=Tagged(OPEN, CLOSE, interrupters=("<tool_call>",), keeps_tail=True),
    switch=on_unless_false,
    engine=True,
    losses=(EMPTY, SECOND_TAG),
)
NEMOTRON_V3 = replace(
    QWEN3,
    name="nemotron_v3",
    split=swapped_when_empty(_QWEN_RSTRIP),
    streamed=until_end(_QWEN_RSTRIP),
    spelling=Spelling("\n", "\n", "\n"),
    strips_tail=True,
    losses=(TAIL, EMPTY, SECOND_TAG),
)
GLM45 = replace(
    QWEN3,
    name="glm45",
    split=Tagged(OPEN, CLOSE, interrupters=("<tool_call>",), reopens=True),
    spelling=Spelling("", "", "\n", before="\n"),
    switch=on_by_default,
    strips_tail=True,
    losses=(TAIL, EMPTY, SECOND_TAG, "on which side of the opening tag leading whitespace stood"),
)
KIMI_K2 = replace(
    QWEN3,
    name="kimi_k2",
    split=Tagged(OPEN, CLOSE, interrupters=("<|tool_calls_section_begin|>",)),
    spelling=TIGHT,
    switch=on_by_default,
    strips_tail=True,
    losses=(TAIL, EMPTY, SECOND_TAG),
)
DEEPSEEK_R1 = ReasoningDialect(
    name="deepseek_r1",
    open=OPEN,
    close=CLOSE,
    split=Partitioned(OPEN, CLOSE),
    losses=("text before the opening tag", "no reasoning (it comes back as an empty text)"),
)
DEEPSEEK_V3 = replace(DEEPSEEK_R1, name="deepseek_v3", spelling=TIGHT, switch=off_by_default)

_ALL = (
    QWEN3,
    replace(
        QWEN3,
        name="seed_oss",
        open="<seed:think>",
        close="</seed:think>",
        split=Tagged(
            "<seed:think>",
            "</seed:think>",
            interrupters=("<seed:tool_call>",),
            keeps_tail=True,
        ),
        spelling=TIGHT,
    ),
    replace(QWEN3, name="mimo", spelling=TIGHT),
    NEMOTRON_V3,
    replace(
        NEMOTRON_V3,
        name="step3p5",
        split=_QWEN_RSTRIP,
        switch=always,
    ),
    replace(
        NEMOTRON_V3,
        name="granite_thinking_parser",
        split=first_lines_dropped(_QWEN_RSTRIP),
        streamed=first_lines_dropped(until_end(_QWEN_RSTRIP)),
        strips_gap=True,
        losses=(TAIL, EMPTY, SECOND_TAG, GAP),
    ),
    GLM45,
    replace(GLM45, name="glm47", spelling=TIGHT),
    replace(GLM45, name="ling3", spelling=Spelling("\n", "\n", "\n")),
    KIMI_K2,
    replace(
        KIMI_K2,
        name="minimax_m2",
        split=Tagged(OPEN, CLOSE, interrupters=("<minimax:tool_call>",)),
        spelling=Spelling("\n", "\n", "\n\n"),
        switch=always,
    ),
    replace(
        KIMI_K2,
        name="deepseek_v4",
        split=Tagged(
            OPEN,
            CLOSE,
            interrupters=("<｜DSML｜tool_calls>", "<｜DSML｜toolcalls>", "<｜DSML｜tool>"),
            reopens=True,
            whole_when_off=False,
        ),
        switch=on_without_effort_none,
    ),
    DEEPSEEK_R1,
    DEEPSEEK_V3,
    replace(DEEPSEEK_V3, name="holo2", switch=on_by_default),
    replace(DEEPSEEK_R1, name="hy_v3", spelling=TIGHT, switch=on_with_effort),
    replace(
        DEEPSEEK_R1,
        name="minimax_m3",
        open="<mm:think>",
        close="</mm:think>",
        split=split_minimax_m3,
        switch=lambda kwargs: kwargs.get("thinking_mode") == "enabled",
        spelling=TIGHT,
        losses=("no reasoning in a block (it comes back as an empty text)",),
    ),
    replace(
        DEEPSEEK_R1,
        name="ernie45",
        split=split_by_response_tags,
        losses=(*DEEPSEEK_R1.losses, "a <response> wrapper and what stands outside it"),
    ),
    replace(
        DEEPSEEK_R1,
        name="step3",
        split=split_at_first_close,
        spelling=Spelling("\n", "\n", "\n"),
        losses=("an opening tag that the model writes (it stays in the reasoning)",),
    ),
    replace(
        DEEPSEEK_R1,
        name="olmo3",
        split=split_when_closed,
        needs_block=False,
        spelling=TIGHT,
        losses=(EMPTY, "reasoning that was cut before its closing tag (it becomes content)"),
    ),
    ReasoningDialect(
        name="granite",
        open="Here is my thought process:",
        close="Here is my response:",
        split=split_by_sentences,
        needs_block=False,
        losses=("text before the opening sentence", OPENED),
    ),
    ReasoningDialect(
        name="hunyuan_a13b",
        open="<think>\n",
        close="\n</think>\n<answer>\n",
        content_close="\n</answer>",
        split=split_by_answer_tags,
        spelling=TIGHT,
        needs_block=False,
        losses=(EMPTY, OPENED, "text after the closing </answer>"),
    ),
    ReasoningDialect(
        name="minimax_m2_append_think",
        open=OPEN,
        close=CLOSE,
        split=split_nothing,
        needs_block=False,
        losses=("the place of reasoning: it stays in the content, an opening tag before it",),
    ),
    ReasoningDialect(
        name="gemma4",
        open="<|channel>thought\n",
        close="<channel|>",
        split=split_by_channel,
        streamed=split_by_channel_streamed,
        spelling=Spelling("", "\n", ""),
        engine=True,
        needs_block=False,
        strips_tail=True,
        losses=(TAIL, EMPTY, "the label after the opening tag"),
    ),
    ReasoningDialect(
        name="mistral",
        open="[THINK]",
        close="[/THINK]",
        split=Tagged(
            "[THINK]",
            "[/THINK]",
            interrupters=("[TOOL_CALLS]",),
            reopens=True,
            begins_inside=False,
            whole_when_off=False,
        ),
        spelling=TIGHT,
        engine=True,
        needs_block=False,
        strips_tail=True,
        losses=(TAIL, EMPTY, OPENED + ", unless streamed"),
    ),
    ReasoningDialect(
        name="kimi_k3",
        open=K3_THINK[0],
        close=K3_THINK[1],
        split=split_kimi_k3,
        spelling=TIGHT,
        content_open=K3_RESPONSE[0],
        content_close=K3_RESPONSE[1],
        unwrap=content_of_kimi_k3,
        switch=thinking_first,
        losses=(EMPTY, "channel markers around the content"),
    ),
    ReasoningDialect(
        name="openai_gptoss",
        open="<|channel|>analysis<|message|>",
        close="<|end|><|start|>assistant",
        split=split_harmony,
        spelling=TIGHT,
        content_open="<|channel|>final<|message|>",
        preamble="<|channel|>commentary<|message|>",
        unwrap=content_of_harmony,
        needs_block=False,
        losses=(EMPTY, "the borders between several analysis or final messages (joined by \\n)"),
    ),
)


def _with_stream(dialect: ReasoningDialect) -> ReasoningDialect:
    if isinstance(dialect.split, Tagged):
        return replace(dialect, streamed=until_end(dialect.split))
    return dialect


REASONING: Mapping[str, ReasoningDialect] = MappingProxyType(
    {dialect.name: _with_stream(dialect) for dialect in _ALL}
)
