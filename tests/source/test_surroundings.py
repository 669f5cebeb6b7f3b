"""Special tokens, stop tokens and attention: as transformers and vLLM would see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from templatefix.source.attention import attention
from templatefix.source.special_tokens import special_tokens, stop_token_ids
from tests.corpus import corpus_directory

ADDED = {"__type": "AddedToken", "content": "<a>", "lstrip": False, "normalized": False}
DECODER = {"0": {"content": "<a>", "special": True}}

CONFIGURATIONS: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"bos_token": "<s>", "eos_token": "</s>", "unk_token": None}, None),
    ({"bos_token": ADDED, "pad_token": "<p>", "mask_token": "<m>", "cls_token": "<c>"}, None),
    ({"image_token": "<i>", "audio_token": ADDED, "add_bos_token": True}, None),
    ({"extra_special_tokens": {"video_token": "<v>", "eoi": "<e>"}}, None),
    ({"extra_special_tokens": ["<x>", "<y>"], "eos_token": "</s>"}, None),
    ({"additional_special_tokens": ["<x>"], "eos_token": "</s>"}, None),
    ({"model_specific_special_tokens": {"image_token": "<i>"}}, None),
    ({"eos_token": "</s>"}, {"eos_token": "<other>", "bos_token": {"content": "<b>"}}),
    ({"eos_token": "</s>", "added_tokens_decoder": DECODER}, {"bos_token": "<b>"}),
    ({}, {"bos_token": {"content": "<b>", "lstrip": False}, "sep_token": "<sep>"}),
    ({}, {"extra_special_tokens": {"boi_token": "<boi>"}}),
]


@pytest.mark.parametrize(("config", "legacy"), CONFIGURATIONS)
def test_special_tokens_equal_those_of_transformers(
    tmp_path: Path, config: dict[str, Any], legacy: dict[str, Any] | None
) -> None:
    assert special_tokens(config, legacy or {}) == reference(tmp_path, config, legacy)


@pytest.mark.corpus
def test_special_tokens_of_the_corpus_equal_those_of_transformers(tmp_path: Path) -> None:
    corpus = corpus_directory()
    if corpus is None:
        pytest.skip("the corpus is absent")
    for directory in sorted((corpus / "tokenizers").iterdir()):
        config = json.loads((directory / "tokenizer_config.json").read_text())
        folder = tmp_path / directory.name
        folder.mkdir()
        assert special_tokens(config, {}) == reference(folder, config, None), directory.name


def reference(
    directory: Path, config: dict[str, Any], legacy: dict[str, Any] | None
) -> dict[str, str]:
    """transformers' own map, from a tokenizer whose vocabulary does not matter."""
    transformers = pytest.importorskip("transformers")
    model = {"type": "WordLevel", "vocab": {"<a>": 0, "b": 1}, "unk_token": "b"}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    if legacy is not None:
        (directory / "special_tokens_map.json").write_text(json.dumps(legacy))
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(
        str(directory), local_files_only=True
    )
    found: dict[str, str] = loaded.special_tokens_map
    return found


def test_stop_tokens_are_an_id_or_a_list_without_repeats() -> None:
    assert stop_token_ids({"eos_token_id": 3}) == (3,)
    assert stop_token_ids({"eos_token_id": [3, 1, 3]}) == (3, 1)
    assert stop_token_ids({"eos_token_id": None}) == ()
    assert stop_token_ids({}) == ()


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({}, None),
        ({"sliding_window": None}, None),
        ({"sliding_window": 4096}, "sliding-window"),
        ({"sliding_window": 4096, "use_sliding_window": True}, "sliding-window"),
        ({"sliding_window": 131072, "use_sliding_window": False}, None),
        ({"sliding_window": 128, "layer_types": ["full_attention"]}, None),
        ({"layer_types": ["sliding_attention", "full_attention"]}, "sliding-window"),
        ({"text_config": {"sliding_window": 1024}}, "sliding-window"),
        ({"thinker_config": {"text_config": {"sliding_window": 1024}}}, "sliding-window"),
        ({"attention_chunk_size": 8192}, "sliding-window"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "hybrid"),
        ({"layer_types": ["mamba", "attention"], "sliding_window": 4}, "hybrid"),
        ({"layers_block_type": ["mamba", "hybrid"]}, "hybrid"),
        ({"hybrid_override_pattern": "M-M*-"}, "hybrid"),
        ({"attn_layer_period": 8, "attn_layer_offset": 4}, "hybrid"),
        ({"linear_attn_config": {"kda_layers": [1]}}, "hybrid"),
        ({"text_config": {"layer_types": ["linear_attention"]}}, "hybrid"),
        ({"mamba_d_state": 128}, "hybrid"),
        ({"mamba_d_state": 128, "layer_types": ["attention", "attention"]}, None),
        ({"attn_type_list": [0, 0, 1]}, "hybrid"),
        ({"attn_type_list": [1, 1, 1]}, None),
    ],
)
def test_attention_is_read_from_what_the_layers_are(
    config: dict[str, Any], kind: str | None
) -> None:
    assert attention(config) == kind
