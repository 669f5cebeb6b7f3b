"""From the files of a tokenizer to an encoder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from templatefix.errors import TargetError
from templatefix.source.template import TokenizerRef

from .encoder import Encoder
from .fallback import shipped_tokenizer, special_token_shapes
from .segments import SegmentEncoder, Segments, ShippedEncoder, added_literals
from .slow import load_with_transformers
from .split import AddedLiteral

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

_SHIPPED = "shipped tokenizer"
_HINT = "pass --tokenizer with a path or a hub id, or remove the file to use the shipped tokenizer"


def load_encoder(ref: TokenizerRef | None, template_literals: Iterable[str] = ()) -> Encoder:
    """The encoder for a tokenizer's files; without any, the shipped approximate one.

    ``template_literals`` are the texts that the template prints and the values of its special
    tokens: the shipped tokenizer takes from them what looks like a special token. Loading the
    same unchanged file again returns the same encoder with all that it remembers. Raises
    ``TargetError`` for files that cannot be used.
    """
    if ref is None:
        return _load_shipped(template_literals)
    path = ref.json_path
    if path is None and ref.directory is not None:
        path = ref.directory / "tokenizer.json"
        if not path.is_file():
            return load_with_transformers(ref.directory, ref.source)
    if path is None:
        raise TargetError(ref.source, "there are no tokenizer files", _HINT)
    try:
        modified = path.stat().st_mtime_ns
    except OSError as error:
        raise TargetError(ref.source, f"cannot read {path}: {error.strerror}", _HINT) from error
    return _load_json(path, modified, ref.source)


@lru_cache(maxsize=4)
def _load_json(path: Path, modified: int, source: str) -> Encoder:
    tokenizer = _read(path, source)
    extra = _missing_tokens(tokenizer, _read_config(path.with_name("tokenizer_config.json")))
    if extra:
        tokenizer.add_tokens(extra)
    return SegmentEncoder(tokenizer, source)


def _load_shipped(template_literals: Iterable[str]) -> Encoder:
    tokenizer, own, segments = _shipped()
    known = {literal.text for literal in own}
    added = list(own)
    next_id = tokenizer.get_vocab_size()
    for shape in special_token_shapes(template_literals):
        if shape not in known:
            token_id = tokenizer.token_to_id(shape)
            added.append(AddedLiteral(shape, next_id if token_id is None else token_id))
            next_id += token_id is None
    return ShippedEncoder(tokenizer, _SHIPPED, added, segments)


@lru_cache(maxsize=1)
def _shipped() -> tuple[Tokenizer, list[AddedLiteral], Segments]:
    tokenizer = _read(shipped_tokenizer(), _SHIPPED)
    return tokenizer, added_literals(tokenizer), Segments()


def _read(path: Path, source: str) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except BaseException as error:
        # The library raises bare Exception for bad files, and panics in Rust on a few.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise TargetError(
                source, f"{path.name} is not a readable tokenizer: {error}", _HINT
            ) from error
        raise


def _read_config(path: Path) -> Mapping[str, Any]:
    """What ``tokenizer_config.json`` says; a broken one is for the template's source to report."""
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def _missing_tokens(tokenizer: Tokenizer, config: Mapping[str, Any]) -> list[AddedToken]:
    """Added tokens that only ``tokenizer_config.json`` knows; transformers adds them likewise.

    They are added in the order of their ids, but only while the ids come out as stated.
    """
    from tokenizers import AddedToken

    stated = config.get("added_tokens_decoder")
    if not isinstance(stated, dict):
        return []
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    missing: list[AddedToken] = []
    next_id = tokenizer.get_vocab_size()
    for token_id, entry in sorted(_numbered(stated), key=itemgetter(0)):
        text = entry.get("content")
        if not isinstance(text, str) or not text or text in known:
            continue
        known_id = tokenizer.token_to_id(text)
        if token_id != (next_id if known_id is None else known_id):
            break
        next_id += known_id is None
        flags = {
            name: entry[name] is True
            for name in ("single_word", "lstrip", "rstrip", "normalized", "special")
            if name in entry
        }
        missing.append(AddedToken(text, **flags))
    return missing


def _numbered(stated: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    for key, entry in stated.items():
        if key.isdecimal() and len(key) < 10 and isinstance(entry, dict):
            yield int(key), entry
