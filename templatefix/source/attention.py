"""Whether a model's cache can be shorter than the common prefix, as ``config.json`` tells it.

vLLM keeps a sliding-window layer's blocks only near the end of a prefix, and the state of a
recurrent layer only at some block boundaries: a predicted hit is then an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SLIDING_WINDOW = "sliding-window"
HYBRID = "hybrid"

_LAYER_LISTS = ("layer_types", "layers_block_type", "block_types", "mixer_types")
_RECURRENT_LAYERS = ("linear", "mamba", "ssm", "recurrent", "conv", "delta", "gdn", "kda", "rwkv")
_WINDOWED_LAYERS = ("sliding", "chunked", "local")
# Fields that only configurations with recurrent layers carry.
_RECURRENT_FIELDS = (
    "attn_layer_indices",
    "attn_layer_period",
    "conv_L_cache",
    "full_attention_interval",
    "full_attn_idxs",
    "hybrid_override_pattern",
    "linear_attn_config",
    "linear_conv_kernel_dim",
    "linear_num_value_heads",
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_cfg",
    "ssm_state_size",
)
_WINDOW_FIELDS = ("sliding_window", "interleaved_sliding_window", "attention_chunk_size")


def attention(config: Mapping[str, Any]) -> str | None:
    """``"hybrid"``, ``"sliding-window"`` or, for plain full attention, ``None``."""
    parts = list(_language_parts(config))
    if any(_is_hybrid(part) for part in parts):
        return HYBRID
    if any(_has_window(part) for part in parts):
        return SLIDING_WINDOW
    return None


def _language_parts(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The configuration and, for multimodal models, that of its language model."""
    yield config
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        nested = config.get(key)
        if isinstance(nested, Mapping):
            yield nested
            deeper = nested.get("text_config")
            if isinstance(deeper, Mapping):
                yield deeper


def _layers(config: Mapping[str, Any]) -> list[str]:
    """The kinds of layers, where the configuration lists them."""
    kinds: list[str] = []
    for key in _LAYER_LISTS:
        listed = config.get(key)
        if isinstance(listed, list):
            kinds += [kind.lower() for kind in listed if isinstance(kind, str)]
    return kinds


def _is_hybrid(config: Mapping[str, Any]) -> bool:
    layers = _layers(config)
    if layers:
        return any(word in kind for kind in layers for word in _RECURRENT_LAYERS)
    # One number for each layer, 0 where it is linear.
    numbered = config.get("attn_type_list")
    if isinstance(numbered, list) and 0 in numbered:
        return True
    return any(config.get(field) for field in _RECURRENT_FIELDS)


def _has_window(config: Mapping[str, Any]) -> bool:
    layers = _layers(config)
    if layers:
        return any(word in kind for kind in layers for word in _WINDOWED_LAYERS)
    if config.get("use_sliding_window") is False:
        return False
    return any(_is_window(config.get(field)) for field in _WINDOW_FIELDS)


def _is_window(value: Any) -> bool:
    if isinstance(value, list):
        return any(_is_window(each) for each in value)
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
