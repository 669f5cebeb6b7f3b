"""Special tokens as transformers hands them to a template: its ``special_tokens_map``.

Reproduces ``PreTrainedTokenizerBase`` of transformers 5.24: the seven standard names, further
``*_token`` entries of the configuration, named extra tokens, and ``special_tokens_map.json``, which
counts only where the configuration has no ``added_tokens_decoder``. Defaults that a tokenizer class
would add in Python are not reproduced: they would need a table of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STANDARD = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
# Three generations of transformers wrote named extra tokens under three keys.
_NAMED_EXTRA = (
    "model_specific_special_tokens",
    "additional_special_tokens",
    "extra_special_tokens",
)


def token_text(entry: Any) -> str | None:
    """The text of a token that is stored as a string or as an AddedToken object."""
    if isinstance(entry, Mapping):
        entry = entry.get("content")
    return entry if isinstance(entry, str) else None


def special_tokens(
    tokenizer_config: Mapping[str, Any], special_tokens_map: Mapping[str, Any]
) -> dict[str, str]:
    """Names such as ``bos_token`` with the text that a template prints for them."""
    entries = dict(tokenizer_config)
    if "added_tokens_decoder" not in tokenizer_config:
        entries.update(special_tokens_map)
    named = {name: entries.get(name) for name in STANDARD}
    named |= {name: entry for name, entry in entries.items() if name.endswith("_token")}
    for key in _NAMED_EXTRA:
        extra = entries.get(key)
        if isinstance(extra, Mapping):
            named |= extra
    texts = {name: token_text(entry) for name, entry in named.items()}
    return {name: text for name, text in texts.items() if text is not None}


def stop_token_ids(generation_config: Mapping[str, Any]) -> tuple[int, ...]:
    """The ids under ``eos_token_id`` of ``generation_config.json``: an integer or a list."""
    entry = generation_config.get("eos_token_id")
    candidates = entry if isinstance(entry, list) else [entry]
    ids = (each for each in candidates if isinstance(each, int) and not isinstance(each, bool))
    return tuple(dict.fromkeys(each for each in ids if 0 <= each < 2**31))
