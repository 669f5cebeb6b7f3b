"""Templates, special tokens and stop tokens out of a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from templatefix.source.attention import HYBRID, SLIDING_WINDOW
from templatefix.source.gguf_metadata import Malformed, Metadata, MetadataReader, Scalar
from templatefix.source.reading import Place, explain_os_error, is_file
from templatefix.source.stored import DEFAULT, StoredTemplate, stored
from templatefix.source.surroundings import Surroundings

_TEMPLATE = "tokenizer.chat_template"
_ARCHITECTURE = "general.architecture"
_TOKENS = "tokenizer.ggml.tokens"
# "seperator" is how the format spells it.
_TOKEN_IDS = {
    "bos_token": "tokenizer.ggml.bos_token_id",
    "eos_token": "tokenizer.ggml.eos_token_id",
    "unk_token": "tokenizer.ggml.unknown_token_id",
    "sep_token": "tokenizer.ggml.seperator_token_id",
    "pad_token": "tokenizer.ggml.padding_token_id",
    "cls_token": "tokenizer.ggml.cls_token_id",
    "mask_token": "tokenizer.ggml.mask_token_id",
}
_STOP_IDS = (
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
)


def read_gguf(path: Path, place: Place) -> tuple[list[StoredTemplate], Surroundings]:
    """The file's templates (none is no error) and what its metadata says about the model."""
    if not is_file(path):
        raise place.fault("is not a regular file" if path.exists() else "no such file", _HINT)
    try:
        with path.open("rb") as stream:
            reader = MetadataReader(stream)
            metadata = reader.read((_TEMPLATE, _ARCHITECTURE))
            return _templates(metadata, path, place), _surroundings(metadata, reader)
    except Malformed as error:
        raise place.fault(f"is not a readable GGUF file: {error}", _HINT) from error
    except OSError as error:
        raise place.fault(explain_os_error(error)) from error


_HINT = "download or convert it again"


def _templates(metadata: Metadata, path: Path, place: Place) -> list[StoredTemplate]:
    texts: dict[str, str] = {}
    for key, text in metadata.scalars.items():
        if key == _TEMPLATE:
            name = DEFAULT
        elif key.startswith(_TEMPLATE + "."):
            name = key.removeprefix(_TEMPLATE + ".")
        else:
            continue
        if not isinstance(text, str) or not text:
            raise place.fault(f"{key} is not a template text", _HINT)
        texts[name] = text
    return stored(dict(sorted(texts.items())), place, path, "gguf")


def _surroundings(metadata: Metadata, reader: MetadataReader) -> Surroundings:
    ids = {
        name: token_id
        for name, key in _TOKEN_IDS.items()
        if (token_id := _token_id(metadata.scalars.get(key))) is not None
    }
    stops = (_token_id(metadata.scalars.get(key)) for key in _STOP_IDS)
    array = metadata.string_arrays.get(_TOKENS)
    texts = reader.strings(array, ids.values()) if array else {}
    return Surroundings(
        special_tokens={
            name: texts[token_id] for name, token_id in ids.items() if token_id in texts
        },
        stop_token_ids=tuple(dict.fromkeys(stop for stop in stops if stop is not None)),
        attention=_attention(metadata.scalars),
    )


def _token_id(entry: Scalar | None) -> int | None:
    if isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0:
        return entry
    return None


def _attention(scalars: Mapping[str, Scalar]) -> str | None:
    """Keys are prefixed with the architecture: ``gemma3.attention.sliding_window``."""
    architecture = scalars.get(_ARCHITECTURE)
    if any(key.startswith(f"{architecture}.ssm.") for key in scalars):
        return HYBRID
    return SLIDING_WINDOW if scalars.get(f"{architecture}.attention.sliding_window") else None
