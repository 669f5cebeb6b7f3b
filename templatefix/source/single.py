"""One file, or standard input: what kind it is, its templates, and what lies beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import IO

from templatefix.errors import TargetError
from templatefix.source.choice import ADDITIONAL, PROCESSOR_CONFIG, PROCESSOR_TEMPLATE
from templatefix.source.gguf_file import read_gguf
from templatefix.source.gguf_metadata import MAGIC
from templatefix.source.options import STDIN
from templatefix.source.reading import (
    Folder,
    Place,
    decode,
    explain_os_error,
    local_folder,
    parse_object,
    read_bytes,
    read_stream,
)
from templatefix.source.stored import StoredTemplate, named_texts, stored
from templatefix.source.surroundings import Surroundings, read_surroundings

_JINJA_SUFFIXES = (".jinja", ".jinja2", ".j2")
_PROCESSOR_FILES = (PROCESSOR_TEMPLATE, PROCESSOR_CONFIG)


def file_templates(
    path: Path, target: str, *, empty_allowed: bool = False
) -> tuple[list[StoredTemplate], Surroundings]:
    """The templates in a file that was named or found; none is an error for the caller."""
    place = Place(target, str(path))
    suffix = path.suffix.lower()
    if suffix == ".gguf" or (
        suffix not in (*_JINJA_SUFFIXES, ".json") and _begins_gguf(path, place)
    ):
        return _gguf(path, place)
    content = read_bytes(path, place)
    text = decode(content, place, empty_allowed=empty_allowed)
    beside = read_surroundings(_model_folder(path, target))
    if suffix == ".json" or (suffix not in _JINJA_SUFFIXES and _is_configuration(text)):
        return _configuration(text, path, place), beside
    return [StoredTemplate(text, None, place.label, path, "jinja")], beside


def stdin_templates(stream: IO[bytes] | None) -> list[StoredTemplate]:
    """Jinja text, or a tokenizer configuration when the input is an object with a template."""
    place = Place(STDIN, "<stdin>")
    if stream is None:
        raise TargetError(STDIN, "standard input is closed", "pipe a template into it")
    text = decode(read_stream(stream, place), Place(STDIN, STDIN))
    if not _is_configuration(text):
        return [StoredTemplate(text, None, place.label, None, "jinja")]
    texts = named_texts(parse_object(text, place).get("chat_template"), place)
    return stored(texts, place, None, "tokenizer-config")


def _gguf(path: Path, place: Place) -> tuple[list[StoredTemplate], Surroundings]:
    """The file's own metadata, completed by what lies beside it."""
    templates, inside = read_gguf(path, place)
    beside = read_surroundings(local_folder(place.target, path.parent))
    return templates, replace(
        beside,
        special_tokens=inside.special_tokens or beside.special_tokens,
        stop_token_ids=beside.stop_token_ids or inside.stop_token_ids,
        attention=inside.attention or beside.attention,
    )


def _configuration(text: str, path: Path, place: Place) -> list[StoredTemplate]:
    entry = parse_object(text, place).get("chat_template")
    if entry is None:
        raise place.fault(
            "has no chat_template",
            "name the model's directory, or the file that holds its template",
        )
    format = "chat-template-json" if path.name in _PROCESSOR_FILES else "tokenizer-config"
    return stored(named_texts(entry, place), place, path, format)


def _is_configuration(text: str) -> bool:
    """Whether text is a JSON object with a template. Jinja text that begins so is no JSON."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "chat_template" in value


def _model_folder(path: Path, target: str) -> Folder:
    """The directory whose files belong to a template: its own, or the one above the named ones."""
    directory = path.parent
    return local_folder(target, directory.parent if directory.name == ADDITIONAL else directory)


def _begins_gguf(path: Path, place: Place) -> bool:
    """Only regular files are asked: a pipe can be read once."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError) as error:
        raise place.fault(explain_os_error(error), "check the path") from error
