"""The layouts against real templates: what follows the generation prompt of a last answer.

Only the whitespace between the parts may differ. Where a template strips or refuses the last answer
it shows no layout; those are listed with what they do instead.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from templatefix.chat.answer import Answer, ToolCall
from templatefix.dialect.named import ReasoningDialect, completion, infer
from templatefix.render.jinja import JinjaRenderer
from templatefix.render.protocol import Crashed, Refused, RenderRequest
from templatefix.syntax import literals, parse
from tests.corpus import Entry, corpus_entries

pytestmark = pytest.mark.corpus

ENTRIES = {entry.model_id: entry for entry in corpus_entries()}

#: Real templates that print another text than the model wrote, or none, and why.
STRIPS_REASONING = "prints the last answer without its reasoning"
STRIPS_CALLS = "prints the last answer without its calls"
OTHER_TEXTS: dict[tuple[str, str], str] = {
    ("deepseek-ai/DeepSeek-R1", "reasoning"): STRIPS_REASONING,
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "reasoning"): STRIPS_REASONING,
    ("deepseek-ai/DeepSeek-V3.1", "reasoning"): STRIPS_REASONING,
    ("google/gemma-4-31B-it", "reasoning"): STRIPS_REASONING,
    ("moonshotai/Kimi-K2-Thinking", "reasoning"): STRIPS_REASONING,
    ("moonshotai/Kimi-K2.6", "reasoning"): STRIPS_REASONING,
    ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", "reasoning"): STRIPS_REASONING,
    ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "reasoning"): STRIPS_REASONING,
    ("ibm-granite/granite-3.2-8b-instruct", "reasoning"): STRIPS_REASONING,
    ("HuggingFaceTB/SmolLM3-3B", "reasoning"): STRIPS_REASONING,
    ("LGAI-EXAONE/EXAONE-4.0-32B", "reasoning"): STRIPS_REASONING,
    ("NousResearch/Hermes-4-14B", "reasoning"): STRIPS_REASONING,
    ("allenai/Olmo-3-7B-Think", "reasoning"): STRIPS_REASONING,
    ("LiquidAI/LFM2.5-1.2B-Instruct", "reasoning"): STRIPS_REASONING,
    ("stepfun-ai/step3", "reasoning"): STRIPS_REASONING,
    ("inclusionAI/Ring-mini-2.0", "reasoning"): STRIPS_REASONING,
    ("openbmb/MiniCPM4.1-8B", "reasoning"): STRIPS_REASONING,
    ("deepseek-ai/DeepSeek-R1", "calls"): "crashes on arguments that are an object",
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "calls"): STRIPS_CALLS,
    ("deepseek-ai/DeepSeek-V3", "calls"): STRIPS_CALLS,
    ("deepseek-ai/DeepSeek-V2.5", "calls"): STRIPS_CALLS,
    ("deepseek-ai/DeepSeek-V3.2", "calls"): "moves a closing tag between prompt and answer",
    ("google/gemma-4-31B-it", "calls"): "prints the calls before the content",
    ("openai/gpt-oss-20b", "calls"): "prints content beside a call as analysis",
    ("unsloth/Llama-3.1-8B-Instruct", "calls"): "prints a call without its content",
    ("unsloth/Llama-3.3-70B-Instruct", "calls"): "prints a call without its content",
    ("trl-internal-testing/tiny-Llama4ForCausalLM", "calls"): "wraps the content beside a call",
    ("ibm-granite/granite-3.0-8b-instruct", "calls"): STRIPS_CALLS,
    ("ibm-granite/granite-3.2-8b-instruct", "calls"): STRIPS_CALLS,
    ("HuggingFaceTB/SmolLM3-3B", "calls"): STRIPS_CALLS,
    ("allenai/Olmo-3-7B-Think", "calls"): STRIPS_CALLS,
    ("LiquidAI/LFM2-1.2B", "calls"): STRIPS_CALLS,
    ("LiquidAI/LFM2-8B-A1B", "calls"): STRIPS_CALLS,
    ("tencent/Hy3", "reasoning"): "writes a suffix into its tags",
    ("NousResearch/Hermes-4-14B", "calls"): STRIPS_REASONING,
    ("mistralai/Mistral-7B-Instruct-v0.3", "calls"): "prints a call with an id, without content",
    ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "calls"): "prints a call with an id",
    ("tiiuae/Falcon3-7B-Instruct", "calls"): "prints the calls as a list of whole messages",
}

ASKED: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "ring",
            "description": "rings",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
                "required": [],
            },
        },
    }
]
USER = {"role": "user", "content": "hello"}
CALL = ToolCall("ring", '{"text": "VALUE", "count": 17}')
MODES: tuple[dict[str, Any], ...] = ({}, {"thinking": True}, {"enable_thinking": True})


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _open_prompt(
    renderer: JinjaRenderer, reasoning: ReasoningDialect | None, tools: list[dict[str, Any]] | None
) -> tuple[str, dict[str, Any]]:
    """The generation prompt, in the first mode that leaves reasoning open."""
    prompt, mode = "", MODES[0]
    for mode in MODES:
        request = RenderRequest(messages=[USER], tools=tools, kwargs=mode)
        prompt = renderer.render(request)
        if reasoning is None or not prompt.rstrip().endswith(reasoning.close):
            break
    return prompt, mode


def _shown(entry: Entry, part: str) -> tuple[str, str] | None:
    """What the template prints after the prompt and what the dialect writes, both squeezed."""
    renderer = JinjaRenderer(entry.text, {"bos_token": "<s>", "eos_token": "</s>"})
    tools = ASKED if part == "calls" else None
    reasoning, tool = infer(literals(parse(entry.text)), _open_prompt(renderer, None, None)[0])
    if (reasoning if part == "reasoning" else tool) is None:
        return None
    prompt, mode = _open_prompt(renderer, reasoning if part == "reasoning" else None, tools)
    opened = reasoning is not None and prompt.rstrip().endswith(reasoning.open.rstrip())
    closed = reasoning is not None and prompt.rstrip().endswith(reasoning.close.rstrip())
    message: dict[str, Any] = {"role": "assistant", "content": "CONTENT"}
    thought = "THOUGHT" if reasoning is not None and not closed else None
    if part == "reasoning" and thought is None:
        return None
    if thought:
        message |= {"reasoning": thought, "reasoning_content": thought}
    if part == "calls":
        arguments = json.loads(CALL.arguments)
        function = {"name": CALL.name, "arguments": arguments}
        identity = "functions.ring:0" if tool and tool.name == "kimi_k2" else "abcdefgh0"
        message["tool_calls"] = [{"id": identity, "type": "function", "function": function}]
    request = RenderRequest(
        messages=[USER, message], tools=tools, add_generation_prompt=False, kwargs=mode
    )
    view = renderer.render(request)
    answer = Answer(thought, "CONTENT", (CALL,) if part == "calls" else ())
    written = completion(answer, reasoning if thought else None, tool, opened=opened, stop="")
    following = view.removeprefix(prompt) if view.startswith(prompt) else f"(not) {view[-60:]}"
    return squeezed(following), squeezed(written)


#: What the index of the corpus says that a template can print.
PRINTED = [
    (entry.model_id, part)
    for entry in ENTRIES.values()
    for part, has in (("reasoning", entry.has_reasoning), ("calls", entry.has_tools))
    if has
]


@pytest.mark.parametrize(("model", "part"), PRINTED)
def test_a_dialect_writes_what_the_template_prints(model: str, part: str) -> None:
    try:
        shown = _shown(ENTRIES[model], part)
    except (Refused, Crashed) as fault:
        if (model, part) in OTHER_TEXTS:
            return
        pytest.skip(f"the template does not render this: {fault}")
    if shown is None:
        pytest.skip("no dialect is inferred, or the prompt leaves nothing open")
    following, written = shown
    assert following.startswith(written) != ((model, part) in OTHER_TEXTS), (following, written)
