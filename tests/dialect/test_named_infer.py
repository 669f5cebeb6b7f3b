"""The dialects that a template's markers call for."""

from __future__ import annotations

import pytest

from templatefix.dialect.named import infer
from templatefix.render.jinja import JinjaRenderer
from templatefix.render.protocol import RenderRequest
from templatefix.syntax import literals, parse
from tests.corpus import corpus_entry

CALL = '<tool_call>\n{"name": "'
FUNCTION = "<tool_call>\n<function="

SHOWN: tuple[tuple[tuple[str, ...], str, str | None, str | None], ...] = (
    (("<|im_start|>", "<think>\n", "\n</think>\n\n", CALL), "", "qwen3", "hermes"),
    (
        ("<|im_start|>", "\n</think>\n\n", FUNCTION, "<parameter=", ">\n"),
        "",
        "qwen3",
        "qwen3_coder",
    ),
    (("<|im_start|>", "<think></think>", FUNCTION), "", "nemotron_v3", "qwen3_coder"),
    (("<|im_start|>", "\n</think>\n", FUNCTION), "<think>\n", "step3p5", "qwen3_coder"),
    (("<think></think>", FUNCTION, "<parameter=a>b</parameter>"), "", "mimo", "mimo"),
    (("<think>", "</think>", "<arg_key>", "</arg_key>\n<arg_value>"), "", "glm45", "glm45"),
    (("</think>", "<arg_key>", "</arg_key><arg_value>"), "<think>", "glm47", "glm47"),
    (("<role>", "</think>", "<arg_key>", "</arg_key>"), "", "ling3", "ling3"),
    (("</think>", "<minimax:tool_call>"), "]~b]ai\n<think>\n", "minimax_m2", "minimax_m2"),
    (
        ("<think>", "<|im_middle|>", "<|tool_calls_section_begin|>"),
        "",
        "kimi_k2",
        "kimi_k2",
    ),
    (
        ("</think>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "\n```json\n"),
        "<｜Assistant｜><think>\n",
        "deepseek_r1",
        "deepseek_v3",
    ),
    (
        ("<think>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"),
        "<｜Assistant｜></think>",
        "deepseek_v3",
        "deepseek_v31",
    ),
    (("</think>", "｜DSML｜", "tool_calls>"), "", "deepseek_v4", "deepseek_v4"),
    (("[THINK]", "[TOOL_CALLS]", "[ARGS]"), "", "mistral", "mistral"),
    (("[TOOL_CALLS] [",), "", None, "mistral-array"),
    (("<|start|>", "<|channel|>analysis<|message|>"), "", "openai_gptoss", "openai"),
    (("<seed:think>", "<seed:tool_call>"), "", "seed_oss", "seed_oss"),
    (("<|channel>thought\n", "<|tool_call>call:"), "", "gemma4", "gemma4"),
    (
        ("<|start_of_role|>", "Here is my thought process:", "<|tool_call|>"),
        "",
        "granite",
        "granite",
    ),
    (
        ("<|start_header_id|>", '{"name": "', '"parameters": '),
        "",
        None,
        "llama3_json",
    ),
    (("<|im_start|>",), "<|im_start|>assistant\n", None, None),
    ((), "<|assistant|>\n<think>\n", "deepseek_r1", None),
)


@pytest.mark.parametrize(("shown", "prompt", "reasoning", "tool"), SHOWN)
def test_markers_decide(
    shown: tuple[str, ...], prompt: str, reasoning: str | None, tool: str | None
) -> None:
    found = infer(shown, prompt)
    assert tuple(each and each.name for each in found) == (reasoning, tool)


def test_no_marker_is_read_across_two_literals() -> None:
    assert infer(("<thi", "nk>"), "") == (None, None)


REAL = {
    "Qwen/Qwen3-8B": ("qwen3", "hermes"),
    "Qwen/Qwen2.5-7B-Instruct": (None, "hermes"),
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": (None, "qwen3_coder"),
    "Qwen/Qwen3.6-35B-A3B": ("qwen3", "qwen3_coder"),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("nemotron_v3", "qwen3_coder"),
    "stepfun-ai/Step-3.5-Flash": ("step3p5", "qwen3_coder"),
    "XiaomiMiMo/MiMo-V2-Flash": ("mimo", "mimo"),
    "zai-org/GLM-4.5": ("glm45", "glm45"),
    "zai-org/GLM-4.7": ("glm47", "glm47"),
    "MiniMaxAI/MiniMax-M2": ("minimax_m2", "minimax_m2"),
    "moonshotai/Kimi-K2-Thinking": ("kimi_k2", "kimi_k2"),
    "moonshotai/Kimi-K2-Instruct-0905": (None, "kimi_k2"),
    "deepseek-ai/DeepSeek-R1": ("deepseek_r1", "deepseek_v3"),
    "deepseek-ai/DeepSeek-V3": (None, "deepseek_v3"),
    "deepseek-ai/DeepSeek-V3.1": ("deepseek_v3", "deepseek_v31"),
    "deepseek-ai/DeepSeek-V3.2": ("deepseek_v3", "deepseek_v32"),
    "deepseek-ai/DeepSeek-V4": ("deepseek_v4", "deepseek_v4"),
    "openai/gpt-oss-20b": ("openai_gptoss", "openai"),
    "google/gemma-4-31B-it": ("gemma4", "gemma4"),
    "mistralai/Ministral-3-3B-Reasoning-2512": ("mistral", "mistral"),
    "mistralai/Mistral-7B-Instruct-v0.3": (None, "mistral-array"),
    "unsloth/Llama-3.1-8B-Instruct": (None, "llama3_json"),
    "ibm-granite/granite-3.2-8b-instruct": ("granite", "granite"),
    "ibm-granite/granite-4.0-h-small": (None, "granite4"),
    "ByteDance-Seed/Seed-OSS-36B-Instruct": ("seed_oss", "seed_oss"),
    "allenai/Olmo-3-7B-Think": ("olmo3", "olmo3"),
    "stepfun-ai/step3": ("step3", None),
    "inclusionAI/Ling-3.0-flash": ("ling3", "ling3"),
    "microsoft/phi-4": (None, None),
    "HuggingFaceH4/zephyr-7b-beta": (None, None),
}


@pytest.mark.corpus
@pytest.mark.parametrize("model", REAL)
def test_real_templates_show_their_dialects(model: str) -> None:
    entry = corpus_entry(model)
    if entry is None:
        pytest.skip("the corpus is not here")
    template = parse(entry.text)
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    prompt = JinjaRenderer(entry.text, tokens).render(
        RenderRequest(messages=[{"role": "user", "content": "q"}])
    )
    found = infer(literals(template), prompt)
    assert tuple(each and each.name for each in found) == REAL[model]
