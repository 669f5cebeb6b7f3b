"""The named dialects against vLLM's own parsers, run in a Python that has vLLM.

``tools/vllm_venv.sh`` makes that Python; ``TEMPLATEFIX_VLLM_PYTHON`` names another. Every case goes
through vLLM's composed parser, as a server composes it, on a real tokenizer to which the markers of
the format are added where it lacks them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from templatefix.chat.answer import ToolCall
from templatefix.dialect.named import ReasoningDialect, ToolDialect, parse
from tests.corpus import corpus_directory
from tests.dialect.pairs import PAIRS, TOOLS_ASKED, dialects_of
from tests.dialect.vllm_side import ANSWERS

pytestmark = pytest.mark.vllm

SIDE = Path(__file__).with_name("vllm_side.py")
REPOSITORY = Path(__file__).parents[2]

#: Combinations that servers use beside those of the round trip, odd ones included.
MORE: tuple[tuple[str | None, str | None], ...] = (
    ("deepseek_r1", "qwen3_coder"),  # an older reasoning parser beside an engine
    ("glm45", "hermes"),  # and the other way round
    ("granite_thinking_parser", "granite4"),
    ("minimax_m2_append_think", "minimax_m2"),
    ("nemotron_v3", None),
    ("holo2", None),
    (None, "qwen3_coder"),  # nobody asked for reasoning: its tags are text
    (None, "glm45"),
    (None, "kimi_k2"),
)

#: A stream is not followed where vLLM's own depends on how the text was cut into tokens, or where
#: the pair loses calls in it: a parser without an end of reasoning (append_think, granite), one
#: that never sees the last characters (olmo3), partial JSON (llama3_json).
NOT_STREAMED = {"minimax_m2_append_think", "granite", "olmo3", "llama3_json", "lfm2"}
#: These stream reasoning by searching token ids that only their own tokenizer has.
NOT_STREAMED |= {"hunyuan_a13b", "ernie45", "kimi_k3", "minimax_m3", "step3"}

MODES: tuple[dict[str, Any], ...] = (
    {},
    {"enable_thinking": False},
    {"enable_thinking": True},
    {"thinking": True, "reasoning_effort": "high", "thinking_mode": "enabled"},
)
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
#: Special tokens that stand in the texts of the cases, by tokenizer.
SPECIAL = {"qwen3": ("<|im_end|>", "<|vision_start|>")}
FRAMES = ("", "ok", "ok\n", "\n\nok\n\n", "\n\n")


@dataclass(frozen=True)
class Case:
    pair: tuple[str | None, str | None]
    completion: str
    kwargs: dict[str, Any] = field(hash=False)
    with_tools: bool = True
    streaming: bool = False

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        return TOOLS_ASKED if self.with_tools else None

    def ours(self) -> dict[str, Any]:
        reasoning, tool = dialects_of(self.pair)
        answer = parse(
            self.completion,
            reasoning,
            tool,
            opened=False,
            thinking=reasoning.enabled(self.kwargs) if reasoning else False,
            tools=self.tools,
            streaming=self.streaming,
            special_tokens=SPECIAL.get(tokenizer_name(self.pair), ()),
        )
        calls = [[call.name, call.arguments] for call in answer.tool_calls]
        return _shown(answer.reasoning, answer.content, calls, self.streaming)

    def job(self, directory: Path) -> dict[str, Any]:
        reasoning, tool = dialects_of(self.pair)
        return {
            "reasoning": self.pair[0],
            "tool": tool.flag if tool else None,
            "tokenizer": str(directory / tokenizer_name(self.pair)),
            "extra_tokens": sorted(extra_tokens(reasoning, tool)),
            "kwargs": self.kwargs,
            "tools": self.tools,
            "completion": self.completion,
            "streaming": self.streaming,
        }


def _shown(
    reasoning: str | None, content: str | None, calls: list[list[str]], streaming: bool
) -> dict[str, Any]:
    """A stream cannot tell an empty field from none."""
    if streaming:
        reasoning, content = reasoning or None, content or None
    return {"reasoning": reasoning, "content": content, "tool_calls": calls}


def tokenizer_name(pair: tuple[str | None, str | None]) -> str:
    reasoning, tool = (name or "" for name in pair)
    if reasoning == "openai_gptoss":
        return "gpt-oss"
    if "gemma4" in pair:
        return "gemma-4"
    if tool.startswith("deepseek") or reasoning == "deepseek_v4":
        return "deepseek-v4"
    if tool.startswith("mistral"):
        return "mistral-tekken"
    return "llama3.2" if tool == "llama3_json" else "qwen3"


def extra_tokens(reasoning: ReasoningDialect | None, tool: ToolDialect | None) -> set[str]:
    """The markers that vLLM's parsers want to find in the vocabulary."""
    if reasoning is not None and reasoning.name == "openai_gptoss":
        return set()
    tokens = {"<think>", "</think>", "<tool_call>", "</tool_call>"}
    if reasoning is not None and " " not in reasoning.open:
        tokens |= {reasoning.open.strip(), reasoning.close.strip()}
    if reasoning is not None and reasoning.name == "kimi_k3":
        tokens |= {"<|open|>", "<|close|>", "<|sep|>"}
    if tool is None:
        return tokens
    calls = tool.completion((ToolCall("ring", "{}"),))
    tokens |= {part + "|>" for part in _tags(calls, "<|", "|>")}
    tokens |= {tag for tag in (tool.open, tool.open.replace("<", "</")) if tag.startswith("<")}
    return tokens | ({"[ARGS]"} if tool.name == "mistral" else set())


def _tags(text: str, opening: str, closing: str) -> Iterator[str]:
    for piece in text.split(closing)[:-1]:
        if opening in piece:
            yield opening + piece.rpartition(opening)[2]


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


def special_texts(pair: tuple[str | None, str | None]) -> Iterator[str]:
    """Special tokens inside reasoning, content and arguments."""
    reasoning, tool = dialects_of(pair)
    for token in SPECIAL.get(tokenizer_name(pair), ()):
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


def cases_of(pair: tuple[str | None, str | None]) -> Iterator[Case]:
    reasoning, tool = dialects_of(pair)
    harmony = pair[0] == "openai_gptoss"
    for text in special_texts(pair):
        for kwargs in MODES[:2]:
            yield Case(pair, text, kwargs)
        if not NOT_STREAMED & set(pair):
            yield Case(pair, text, {}, streaming=True)
    for number, kwargs in enumerate(MODES[:1] if harmony else MODES):
        for text in reasoning_texts(reasoning) if reasoning else ():
            yield Case(pair, text, kwargs)
        if tool is not None:
            texts = (*call_texts(reasoning, tool), *odd_texts(reasoning, tool))
            for text in texts[:: 1 if number < 2 else 3]:  # the later modes say little of calls
                yield Case(pair, text, kwargs)
                if kwargs == {}:
                    yield Case(pair, text, kwargs, with_tools=False)
    if tool is not None and not NOT_STREAMED & set(pair):
        for text in list(call_texts(reasoning, tool))[::3]:
            yield Case(pair, text, {}, streaming=True)


@cache
def answers() -> dict[tuple[str | None, str | None], list[tuple[Case, dict[str, Any]]]]:
    """vLLM's answer to every case, in one run: starting it takes longer than asking it."""
    python = os.environ.get("TEMPLATEFIX_VLLM_PYTHON", "/opt/vllm-venv/bin/python")
    if not Path(python).exists():
        pytest.skip(f"no Python with vLLM at {python} (tools/vllm_venv.sh makes one)")
    corpus = corpus_directory()
    if corpus is None:
        pytest.skip("the corpus of tokenizers is not here")
    cases = [case for pair in (*PAIRS, *MORE) for case in cases_of(pair)]
    jobs = json.dumps([case.job(corpus / "tokenizers") for case in cases])
    run = subprocess.run(
        [python, str(SIDE)],
        input=jobs,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert ANSWERS in run.stdout, run.stderr[-2000:]
    found: dict[tuple[str | None, str | None], list[tuple[Case, dict[str, Any]]]] = {}
    answered = json.loads(run.stdout.partition(ANSWERS)[2])
    for case, theirs in zip(cases, answered, strict=True):
        found.setdefault(case.pair, []).append((case, theirs))
    return found


@pytest.mark.parametrize("pair", [*PAIRS, *MORE], ids=str)
def test_answers_are_vllms_own(pair: tuple[str | None, str | None]) -> None:
    asked = answers()[pair]
    wrong = [(case, theirs, case.ours()) for case, theirs in asked if theirs != case.ours()]
    assert not wrong, (
        "\n".join(
            f"{case.completion!r} {case.kwargs} tools={case.with_tools} stream={case.streaming}\n"
            f"  vLLM: {theirs}\n  ours: {ours}"
            for case, theirs, ours in wrong[:5]
        )
        + f"\n{len(wrong)} of {len(asked)}"
    )
