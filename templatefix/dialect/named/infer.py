"""Which dialects a template belongs to, from the markers that it shows and never from a name.

The first rule that holds decides. Where several parsers share their markers and differ only in
what they do with whitespace, the other markers of the format's family decide:

- ``<function=`` calls beside ``<think>``: a pair of tags with nothing between them is how the
  formats of nemotron_v3 write no reasoning, a closing tag with two newlines is qwen3's, with one
  newline step3p5's; values without newlines around them are mimo's.
- ``<arg_key>`` calls: line by line they are glm45's, in one line glm47's, after a ``<role>`` frame
  ling3's.
- The tags of DeepSeek: calls in ```` ```json ```` fences are R1's, where reasoning is always on;
  bare ones are V3.1's, where it has to be asked for.
- ``<think>`` with calls of hermes or without calls: in a ChatML frame qwen3, elsewhere
  deepseek_r1. Both keep every character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .reasoning import ReasoningDialect
from .reasoning_table import REASONING
from .tool import ToolDialect
from .tool_table import TOOLS


@dataclass(frozen=True)
class Rule:
    """``name`` is meant when every pattern of ``needs`` is found, and none of ``bars``."""

    name: str
    needs: tuple[str, ...]
    bars: tuple[str, ...] = ()

    def holds(self, text: str) -> bool:
        return all(re.search(each, text) for each in self.needs) and not any(
            re.search(each, text) for each in self.bars
        )


HARMONY = (r"<\|channel\|>", r"<\|message\|>")
LLAMA = r"<\|(start_header_id|header_start)\|>"
CHATML = r"<\|im_start\|>"
FENCE = r"```json"

_TOOL_RULES = (
    Rule("openai", HARMONY),
    Rule("kimi_k2", (r"<\|tool_calls_section_begin\|>",)),
    Rule("minimax_m2", (r"<minimax:tool_call>",)),
    Rule("deepseek_v4", ("｜DSML｜", r"tool_calls>")),
    Rule("deepseek_v32", ("｜DSML｜",)),
    Rule("deepseek_v3", ("<｜tool▁calls▁begin｜>", FENCE)),
    Rule("deepseek_v31", ("<｜tool▁calls▁begin｜>",)),
    Rule("mistral", (r"\[TOOL_CALLS\]", r"\[ARGS\]")),
    Rule("mistral-array", (r"\[TOOL_CALLS\]",)),
    Rule("seed_oss", ("<seed:tool_call>",)),
    Rule("ling3", ("<arg_key>", "<role>")),
    Rule("glm47", ("<arg_key>", "</arg_key><arg_value>")),
    Rule("glm45", ("<arg_key>", "</arg_key>"), (r"arg_key\{\}",)),
    Rule("mimo", ("<tool_call>", "<function=", r"<parameter=\w+>[^\n]")),
    Rule("qwen3_coder", ("<tool_call>", "<function=")),
    Rule("gemma4", (r"<\|tool_call>", "call:")),
    Rule("granite", (r"<\|tool_call\|>", r"<\|start_of_role\|>")),
    Rule("lfm2", (r"<\|tool_list_start\|>",)),
    Rule("lfm2", (r"<\|tool_call_start\|>",)),
    Rule("olmo3", ("<functions>", "<function_calls>")),
    Rule("granite4", ("<tool_call>", r'"name": ', r"<\|start_of_role\|>")),
    Rule("hermes", ("<tool_call>", r'"name":'), ("<tool_calls>",)),
    Rule("llama3_json", (r'\{"name": ', r'"parameters": ', LLAMA)),
)

PAIR = r"<think>|</think>"
_REASONING_RULES = (
    Rule("openai_gptoss", HARMONY),
    Rule("mistral", (r"\[THINK\]",)),
    Rule("seed_oss", ("<seed:think>",)),
    Rule("minimax_m3", ("<mm:think>",)),
    Rule("gemma4", (r"<\|channel>",)),
    Rule("kimi_k3", (r"<\|open\|>", r"<\|sep\|>", "think")),
    Rule("granite", ("Here is my thought process:",)),
    Rule("hy_v3", (r"<think\{\}>",)),
    Rule("kimi_k2", (PAIR, r"<\|im_middle\|>")),
    Rule("minimax_m2", (PAIR, "<minimax:tool_call>")),
    Rule("deepseek_v4", (PAIR, "｜DSML｜", r"tool_calls>")),
    Rule("deepseek_v3", (PAIR, "｜DSML｜")),
    Rule("deepseek_r1", (PAIR, "<｜Assistant｜>", FENCE)),
    Rule("deepseek_v3", (PAIR, "<｜Assistant｜>", "<｜tool▁calls▁begin｜>")),
    Rule("hunyuan_a13b", (PAIR, "<answer>")),
    Rule("step3", (PAIR, "steptml")),
    Rule("ernie45", (PAIR, "<response>", r"<\|begin_of_sentence\|>")),
    Rule("granite_thinking_parser", (PAIR, r"<\|start_of_role\|>")),
    Rule("olmo3", (PAIR, "<functions>", CHATML)),
    Rule("ling3", (PAIR, "<arg_key>", "<role>")),
    Rule("glm47", (PAIR, "<arg_key>", "</arg_key><arg_value>")),
    Rule("glm45", (PAIR, "<arg_key>")),
    Rule("mimo", (PAIR, "<function=", r"<parameter=\w+>[^\n]")),
    Rule("nemotron_v3", (PAIR, "<function=", "<think></think>")),
    Rule("step3p5", (PAIR, "<function=", "\n</think>\n"), ("</think>\n\n",)),
    Rule("qwen3", (PAIR, CHATML)),
    Rule("deepseek_r1", (PAIR,)),
)


def infer(
    literals: Iterable[str], generation_prompt: str
) -> tuple[ReasoningDialect | None, ToolDialect | None]:
    """The dialects whose markers the template's literals and its generation prompt show.

    ``generation_prompt`` is what ``add_generation_prompt`` adds, or a prompt of plain text that
    ends in it: no tools, whose schemas could be taken for calls.
    """
    # A separator that no marker contains, so that no marker is read across two literals.
    text = "\0".join((*literals, generation_prompt))
    reasoning = next((rule.name for rule in _REASONING_RULES if rule.holds(text)), None)
    tool = next((rule.name for rule in _TOOL_RULES if rule.holds(text)), None)
    return (
        REASONING[reasoning] if reasoning else None,
        TOOLS[tool] if tool else None,
    )
