"""Which models a server renders with code of its own."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.serving.renderers import DEEPSEEK_V4, HARMONY, MISTRAL, Recognised, recognise

MISTRAL_FILES = {"consolidated-00001-of-00002.safetensors", "tekken.json", "config.json"}


@pytest.mark.parametrize(
    ("config", "files", "expected"),
    [
        (
            {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4"},
            set(),
            Recognised(DEEPSEEK_V4, "architecture DeepseekV4ForCausalLM"),
        ),
        (
            {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"},
            set(),
            Recognised(HARMONY, "model_type gpt_oss"),
        ),
        (
            {"architectures": ["Mistral3ForConditionalGeneration"]},
            MISTRAL_FILES,
            Recognised(MISTRAL, "tekken.json beside consolidated-00001-of-00002.safetensors"),
        ),
        (
            {},
            {"consolidated.safetensors", "tokenizer.model.v3"},
            Recognised(MISTRAL, "tokenizer.model.v3 beside consolidated.safetensors"),
        ),
        ({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}, {"tokenizer.json"}, None),
        # The tokenizer alone does not make it a repository of Mistral's.
        ({"model_type": "mistral"}, {"tekken.json", "model.safetensors"}, None),
        ({}, {"consolidated.safetensors", "tokenizer.model"}, None),
        ({}, set(), None),
        ({"architectures": None, "model_type": 7}, set(), None),
        ({"architectures": [7, None, ["DeepseekV4ForCausalLM"]]}, set(), None),
        ({"architectures": "DeepseekV4ForCausalLM"}, set(), None),
    ],
)
def test_a_model_is_recognised_as_the_server_does(
    config: dict[str, Any], files: set[str], expected: Recognised | None
) -> None:
    assert recognise(config, files) == expected
