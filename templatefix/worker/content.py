"""All that a template's check depends on beside its options, as a hash."""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from templatefix.serving.renderers import recognise
from templatefix.source import ChatTemplate, TokenizerRef
from templatefix.source.choice import TOKENIZER_CONFIG
from templatefix.worker.job import Content

_PART = 2**20


def content_of(template: ChatTemplate) -> Content:
    """The template's content: its text, its special and stop tokens, its tokenizer's files, and
    what the model's configuration says of it. Raises ``OSError`` for files that cannot be read."""
    found = recognise(template.config, template.files)
    parts: list[Any] = [
        template.text,
        template.format,
        dict(sorted(template.special_tokens.items())),
        template.stop_token_ids,
        template.attention,
        None if found is None else found.evidence,
        # What vLLM's own renderers read of it is theirs to know.
        dict(template.config) if found is not None else None,
        None if template.tokenizer is None else _tokenizer(template.tokenizer),
    ]
    text = json.dumps(parts, sort_keys=True, default=str)
    sha256 = hashlib.sha256(text.encode("ascii")).hexdigest()
    return Content(template.display, template.name, sha256)


def _tokenizer(tokenizer: TokenizerRef) -> list[tuple[str, str]]:
    """The names and hashes of a tokenizer's files; how its source is printed counts as well."""
    if tokenizer.json_path is not None:
        beside = tokenizer.json_path.with_name(TOKENIZER_CONFIG)  # has tokens that the file lacks
        files = [tokenizer.json_path, *([beside] if beside.is_file() else [])]
    else:
        assert tokenizer.directory is not None
        files = sorted(path for path in tokenizer.directory.iterdir() if path.is_file())
        files = [path for path in files if path.suffix in _SLOW_SUFFIXES]
    hashes = [(path.name, _hash_of(path)) for path in files]
    return [("source", tokenizer.source), *hashes]


#: The files that transformers may read for a tokenizer, among those of a model.
_SLOW_SUFFIXES = (".json", ".model", ".tiktoken", ".txt")


def _hash_of(path: Path) -> str:
    stat = os.stat(path)
    return _hash(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _hash(path: Path, size: int, changed: int) -> str:
    """One tokenizer belongs to many templates, and has some ten megabytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(_PART):
            digest.update(part)
    return digest.hexdigest()
