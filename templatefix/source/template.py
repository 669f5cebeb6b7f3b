"""What a target yields: a chat template with all that rendering and encoding it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TokenizerRef:
    """Where a tokenizer's files are.

    ``source`` is printable; ``json_path`` is a ``tokenizer.json`` when there is one, else
    ``directory`` holds files that only transformers can read (a slow tokenizer).
    """

    source: str
    directory: Path | None
    json_path: Path | None


@dataclass(frozen=True)
class ChatTemplate:
    """A Jinja chat template and its surroundings, wherever they came from.

    ``display`` is the file name that findings print. ``name`` is set for one of several named
    templates. ``special_tokens`` maps ``bos_token`` and the like to their text;
    ``stop_token_ids`` are the ``eos_token_id`` of ``generation_config.json``. ``attention`` is
    ``"sliding-window"`` or ``"hybrid"`` when ``config.json`` says that a cache hit may be shorter
    than the common prefix. ``format`` is how the template was stored: ``jinja``,
    ``tokenizer-config``, ``chat-template-json`` or ``gguf``; ``none`` where a model has no template
    and the text is empty. ``config`` is the model's ``config.json`` and ``files`` the names of its
    files, where they are known. ``arguments`` are the words of a command line that mean this
    template and no other, with the same tokenizer. ``original`` are those that mean the template
    which this one was patched from, where the target has it.
    """

    target: str
    display: str
    text: str
    name: str | None = None
    path: Path | None = None
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    stop_token_ids: tuple[int, ...] = ()
    tokenizer: TokenizerRef | None = None
    attention: str | None = None
    format: str = "jinja"
    config: Mapping[str, Any] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    arguments: tuple[str, ...] = ()
    original: tuple[str, ...] = ()


def sha256(text: str) -> str:
    """The hash that names a template: of its text as UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
