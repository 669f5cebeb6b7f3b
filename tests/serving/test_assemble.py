"""The command: its flags, and what it warns of."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.serving.assemble import Served, ServeOptions, serving
from templatefix.serving.connectors import Storage
from templatefix.serving.plan import Serving

V4 = {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "kv_lora_rank": 512}
GPT_OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
MISTRAL_FILES = frozenset({"consolidated.safetensors", "tekken.json"})


def kinds(plan: Serving) -> list[str]:
    return [each.kind for each in plan.warnings]


def test_a_plain_model_is_served_with_its_template_its_kwargs_and_its_parsers() -> None:
    served = Served("org/m", "t.jinja", "v1", inferred=("qwen3", "hermes"))
    plan = serving(served, ServeOptions({"enable_thinking": False}))
    assert plan.words == (
        *("vllm", "serve", "org/m", "--revision", "v1", "--chat-template", "t.jinja"),
        *("--default-chat-template-kwargs", '{"enable_thinking": false}'),
        *("--reasoning-parser", "qwen3"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        "--enable-prompt-tokens-details",
    )
    assert plan.warnings == ()


def test_tool_choice_is_enabled_only_with_a_parser() -> None:
    words = serving(Served("m"), ServeOptions()).words
    assert words == ("vllm", "serve", "m", "--enable-prompt-tokens-details")


def test_parsers_can_be_named_and_left_out() -> None:
    served = Served("m", inferred=("qwen3", "hermes"))
    assert serving(served, ServeOptions(reasoning_parser="x")).parsers == ("x", "hermes")
    assert serving(served, ServeOptions(tool_call_parser="none")).parsers == ("qwen3", None)
    # Ours tells two forms apart where vLLM has one parser.
    assert serving(Served("m", inferred=(None, "mistral-array")), ServeOptions()).parsers[1] == (
        "mistral"
    )


def test_a_template_makes_a_model_with_a_renderer_of_its_own_render_with_jinja() -> None:
    served = Served("m", "t.jinja", config=V4, inferred=("qwen3", None))
    plan = serving(served, ServeOptions())
    assert plan.words[3:7] == ("--tokenizer-mode", "hf", "--chat-template", "t.jinja")
    assert plan.parsers == ("qwen3", "deepseek_v4")
    assert plan.renderer is None
    assert kinds(plan) == ["not-rendered-by-jinja"]


def test_without_one_the_renderer_stays_and_the_ways_out_are_named() -> None:
    plan = serving(Served("m", config=V4), ServeOptions())
    assert "--tokenizer-mode" not in plan.words
    assert plan.parsers == ("deepseek_v4", "deepseek_v4")
    assert plan.renderer == "deepseek_v4"
    assert kinds(plan) == ["not-rendered-by-jinja", "renderer-history"]
    kwarg, template = plan.warnings[1].instead
    assert kwarg.startswith("""--default-chat-template-kwargs '{"drop_thinking": false}'""")
    assert template.startswith("--tokenizer-mode hf")
    kept = serving(Served("m", config=V4), ServeOptions({"drop_thinking": False}))
    assert kinds(kept) == ["not-rendered-by-jinja"]


def test_no_flag_makes_harmony_read_a_template() -> None:
    plan = serving(Served("m", "t.jinja", config=GPT_OSS), ServeOptions())
    assert not {"--chat-template", "--tokenizer-mode"} & set(plan.words)
    assert plan.parsers == ("openai_gptoss", "openai")
    ignored, history = plan.warnings
    assert "left out" in ignored.reason
    assert "no flag" in ignored.reason
    assert "VLLM_SYSTEM_START_DATE" in history.instead[0]


def test_mistral_mode_needs_a_tokenizer_that_transformers_reads_to_be_left() -> None:
    plan = serving(Served("m", "t.jinja", files=MISTRAL_FILES), ServeOptions())
    assert "--tokenizer-mode" in plan.words
    assert "a tokenizer that transformers reads" in plan.warnings[0].reason
    plan = serving(Served("m", files=MISTRAL_FILES, inferred=(None, "hermes")), ServeOptions())
    assert plan.parsers == (None, "mistral")


@pytest.mark.parametrize(
    ("connector", "said", "instead"),
    [
        ("none", "recurrent layers", "measure it"),
        ("mooncake-store", "save_decode_cache changes nothing", "56971"),
        ("lmcache", "the server does not start", "--connector lmcache-mp"),
        ("lmcache-mp", "recurrent layers", "measure it"),
    ],
)
def test_a_hybrid_model_is_warned_of(connector: str, said: str, instead: str) -> None:
    storage = Storage(connector)
    (warned,) = serving(Served("m", attention="hybrid"), ServeOptions(storage=storage)).warnings
    assert warned.kind == "hybrid"
    assert said in warned.reason
    assert instead in warned.instead[0]


def test_a_sliding_window_is_warned_of() -> None:
    plan = serving(Served("m", attention="sliding-window"), ServeOptions())
    assert kinds(plan) == ["sliding-window"]
    storage = Storage("lmcache")
    plan = serving(Served("m", attention="sliding-window"), ServeOptions(storage=storage))
    assert "hybrid KV cache manager off" in plan.warnings[0].reason


@pytest.mark.parametrize(
    ("config", "attention", "missed"),
    [
        ({"num_key_value_heads": 8}, None, None),
        ({"num_key_value_heads": 1}, None, None),
        ({}, None, None),
        ({"num_key_value_heads": 6}, None, "6 KV heads are no multiple of 4"),
        ({"text_config": {"num_key_value_heads": 2}}, None, "2 KV heads are no multiple of 4"),
        ({"num_key_value_heads": 8, "kv_lora_rank": 512}, None, "MLA"),
        ({"num_key_value_heads": 8, "kv_lora_rank": None}, None, None),
        ({"num_key_value_heads": 8}, "sliding-window", "other layers than full attention"),
    ],
)
def test_a_condition_of_the_common_layout_that_the_model_misses_is_told(
    config: dict[str, Any], attention: str | None, missed: str | None
) -> None:
    storage = Storage("mooncake-store", store_tp_size=4)
    plan = serving(Served("m", config=config, attention=attention), ServeOptions(storage=storage))
    told = [each.reason for each in plan.warnings if each.kind == "store-tp-size"]
    assert len(told) == (missed is not None)
    assert missed is None or missed in told[0]


def test_a_decode_instance_names_its_prefill_instance() -> None:
    options = ServeOptions(storage=Storage("mooncake-store", role="consumer"))
    plan = serving(Served("m", "t.jinja", inferred=("qwen3", None)), options)
    prefill = plan.beside[-1]
    assert prefill.purpose == "the prefill instances"
    assert prefill.words[:-1] == plan.words[:-1]
    assert '"kv_producer"' in prefill.words[-1]
    assert prefill.environment == {
        "MOONCAKE_CONFIG_PATH": "mooncake.json",
        "VLLM_MOONCAKE_BOOTSTRAP_PORT": "8998",
    }
    assert plan.environment == {"MOONCAKE_CONFIG_PATH": "mooncake.json"}
