"""What lies beside a template: special tokens, stop tokens, the tokenizer, the attention kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from templatefix.source.attention import attention
from templatefix.source.reading import Folder
from templatefix.source.special_tokens import special_tokens, stop_token_ids
from templatefix.source.template import TokenizerRef

TOKENIZER_JSON = "tokenizer.json"
# Tokenizers that only transformers can read.
SLOW_TOKENIZERS = (
    "tokenizer.model",
    "tiktoken.model",
    "qwen.tiktoken",
    "tekken.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Surroundings:
    """Everything that a ``ChatTemplate`` needs besides its text.

    ``config`` is the object in ``config.json``; ``files`` are the names in the model's directory
    or repository, as far as they are known.
    """

    special_tokens: Mapping[str, str] = field(default_factory=dict)
    stop_token_ids: tuple[int, ...] = ()
    tokenizer: TokenizerRef | None = None
    attention: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    files: frozenset[str] = frozenset()


def read_surroundings(
    folder: Folder, tokenizer_source: str = "", listed: frozenset[str] = frozenset()
) -> Surroundings:
    """Read them from a directory; absent files leave their part empty.

    ``tokenizer_source`` is how the tokenizer is printed, where it is not its path. ``listed`` are
    the names that belong to the model and need not be in the directory: a repository's.
    """
    config = folder.json_object("config.json")
    return Surroundings(
        special_tokens=special_tokens(
            folder.json_object("tokenizer_config.json"),
            folder.json_object("special_tokens_map.json"),
        ),
        stop_token_ids=stop_token_ids(folder.json_object("generation_config.json")),
        tokenizer=find_tokenizer(folder, tokenizer_source),
        attention=attention(config),
        config=config,
        files=listed | folder.names if listed else folder.names,
    )


def find_tokenizer(folder: Folder, source: str = "") -> TokenizerRef | None:
    """The tokenizer in a directory: ``tokenizer.json``, else files for transformers, else none."""
    if folder.has(TOKENIZER_JSON):
        path = folder.path / TOKENIZER_JSON
        if _is_lfs_pointer(path):
            raise folder.place(TOKENIZER_JSON).fault(
                "is a Git LFS pointer, not the tokenizer", "run git lfs pull"
            )
        return TokenizerRef(source or str(path), folder.path, path)
    if any(folder.has(name) for name in SLOW_TOKENIZERS) or _names_tiktoken(folder.names):
        return TokenizerRef(source or str(folder.path), folder.path, None)
    return None


@lru_cache(maxsize=4)
def _names_tiktoken(names: frozenset[str]) -> bool:
    return any(name.endswith(".tiktoken") for name in names)


def _is_lfs_pointer(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError:
        return False
