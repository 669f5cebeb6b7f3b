"""What vLLM's parsers are asked: texts as models write them, odd ones, and answers that go there
and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from templatefix.chat.answer import Answer, ToolCall
from templatefix.dialect.named import completion, parse
from tests.dialect.pairs import (
    ALWAYS_OPENED,
    ASKED,
    NEVER_OPENED,
    PAIRS,
    TOOLS_ASKED,
    answers,
    dialects_of,
)
from tests.dialect.vllm_texts import call_texts, odd_texts, reasoning_texts, special_texts

Pair = tuple[str | None, str | None]
#: How a completion is parsed: whole, as a stream by an endpoint that parses what came before anew
#: with every token, or in the steps of one parser that a chat request keeps.
Way = Literal["whole", "stream", "steps"]

#: Combinations that servers use beside those of the round trip, odd ones included.
MORE: tuple[Pair, ...] = (
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
#: Special tokens that stand in the texts of the cases, by tokenizer.
SPECIAL = {"qwen3": ("<|im_end|>", "<|vision_start|>")}

#: Answers of each pair that go there and back.
ROUND_TRIPS = 24


@dataclass(frozen=True)
class Case:
    """A completion. ``opened`` is whether the prompt ends in the opening tag of reasoning."""

    pair: Pair
    completion: str
    kwargs: dict[str, Any] = field(hash=False)
    with_tools: bool = True
    way: Way = "whole"
    opened: bool = False

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        return TOOLS_ASKED if self.with_tools else None

    @property
    def streaming(self) -> bool:
        return self.way != "whole"

    def ours(self) -> Answer:
        reasoning, tool = dialects_of(self.pair)
        answer = parse(
            self.completion,
            reasoning,
            tool,
            opened=self.opened,
            thinking=reasoning.enabled(self.kwargs) if reasoning else False,
            tools=self.tools,
            streaming=self.streaming,
            special_tokens=SPECIAL.get(tokenizer_name(self.pair), ()),
        )
        if not self.streaming:
            return answer
        # A stream cannot tell an empty field from none.
        return Answer(answer.reasoning or None, answer.content or None, answer.tool_calls)

    def job(self, directory: Path) -> dict[str, Any]:
        """The case as ``vllm_side`` takes it; ``directory`` is where the tokenizers are."""
        reasoning, tool = dialects_of(self.pair)
        return {
            "reasoning": self.pair[0],
            "tool": tool.flag if tool else None,
            "tokenizer": str(directory / tokenizer_name(self.pair)),
            "extra_tokens": sorted(extra_tokens(self.pair)),
            "kwargs": self.kwargs,
            "tools": self.tools,
            "completion": self.completion,
            "prompt": f"q{reasoning.open}" if reasoning and self.opened else "",
            "way": self.way,
        }


def tokenizer_name(pair: Pair) -> str:
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


def extra_tokens(pair: Pair) -> set[str]:
    """The markers that vLLM's parsers want to find in the vocabulary: those of all pairs with this
    tokenizer, since it takes long to load."""
    tokenizer = tokenizer_name(pair)
    if tokenizer == "gpt-oss":
        return set()
    tokens = set().union(*(_markers(p) for p in (*PAIRS, *MORE) if tokenizer_name(p) == tokenizer))
    return tokens | ({"[ARGS]"} if pair[1] == "mistral" else set())  # by which it knows its format


@cache
def _markers(pair: Pair) -> frozenset[str]:
    reasoning, tool = dialects_of(pair)
    tokens = {"<think>", "</think>", "<tool_call>", "</tool_call>"}
    if reasoning is not None and " " not in reasoning.open:
        tokens |= {reasoning.open.strip(), reasoning.close.strip()}
    if reasoning is not None and reasoning.name == "kimi_k3":
        tokens |= {"<|open|>", "<|close|>", "<|sep|>"}
    if tool is not None:
        calls = tool.completion((ToolCall("ring", "{}"),))
        tokens |= {part + "|>" for part in _tags(calls, "<|", "|>")}
        tags = (tool.open, tool.open.replace("<", "</"))
        tokens |= {tag for tag in tags if tag.startswith("<")}
    return frozenset(tokens)


def _tags(text: str, opening: str, closing: str) -> Iterator[str]:
    for piece in text.split(closing)[:-1]:
        if opening in piece:
            yield opening + piece.rpartition(opening)[2]


def cases_of(pair: Pair) -> Iterator[Case]:
    """Texts in every mode, whole and as streams."""
    reasoning, tool = dialects_of(pair)
    streamed = not NOT_STREAMED & set(pair)
    for text in special_texts(reasoning, tool, SPECIAL.get(tokenizer_name(pair), ())):
        for kwargs in MODES[:2]:
            yield Case(pair, text, kwargs)
        if streamed:
            yield Case(pair, text, {}, way="steps")
    harmony = pair[0] == "openai_gptoss"
    for number, kwargs in enumerate(MODES[:1] if harmony else MODES):
        for text in reasoning_texts(reasoning) if reasoning else ():
            yield Case(pair, text, kwargs)
        if tool is not None:
            texts = (*call_texts(reasoning, tool), *odd_texts(reasoning, tool))
            for text in texts[:: 1 if number == 0 else 3]:  # other modes say little of calls
                yield Case(pair, text, kwargs)
            for text in texts[::2] if number == 0 else ():
                yield Case(pair, text, kwargs, with_tools=False)
    if tool is not None and streamed:
        for text in list(call_texts(reasoning, tool))[::3]:
            yield Case(pair, text, {}, way="steps")


@cache
def round_trips(pair: Pair) -> list[tuple[Answer, Case]]:
    """Answers, each with the completion that a model writes for it."""
    reasoning, tool = dialects_of(pair)
    thinking = reasoning.enabled(ASKED) if reasoning else False
    found: list[tuple[Answer, Case]] = []

    @settings(
        max_examples=ROUND_TRIPS,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
    )
    @given(answers(pair), st.booleans())
    def draw(answer: Answer, opened: bool) -> None:
        if pair[0] in ALWAYS_OPENED | NEVER_OPENED or answer.reasoning is None:
            opened = pair[0] in ALWAYS_OPENED
        written = completion(answer, reasoning, tool, opened=opened, stop="", thinking=thinking)
        case = Case(pair, written, ASKED, with_tools=tool is not None, opened=opened)
        found.append((answer, case))

    draw()
    return found
