"""Templates as files store them: one string, or several that have names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from templatefix.source.reading import REPAIR, Place, json_kind

DEFAULT = "default"


@dataclass(frozen=True)
class StoredTemplate:
    """A template's text and where it is stored; the fields are those of ``ChatTemplate``."""

    text: str
    name: str | None
    display: str
    path: Path | None
    format: str


def named_texts(entry: Any, place: Place) -> dict[str, str]:
    """The value of a ``chat_template`` key as named texts; absent or null gives none.

    A string is the template named ``default``; a list holds objects with ``name`` and
    ``template``; an object maps names to texts.
    """
    if entry is None:
        return {}
    if isinstance(entry, str):
        return {DEFAULT: _checked(entry, place)}
    if isinstance(entry, Mapping):
        pairs: list[tuple[Any, Any]] = list(entry.items())
    elif isinstance(entry, list) and all(isinstance(each, Mapping) for each in entry):
        pairs = [(each.get("name"), each.get("template")) for each in entry]
    else:
        raise place.fault(
            f"chat_template is {json_kind(entry)}: expected a string or named texts", REPAIR
        )
    texts: dict[str, str] = {}
    for name, text in pairs:
        if not isinstance(name, str) or not isinstance(text, str):
            raise place.fault(
                "chat_template holds an entry without a name and a template text", REPAIR
            )
        texts[name] = _checked(text, place)
    return texts


def _checked(text: str, place: Place) -> str:
    """JSON can hold what no UTF-8 file can: half of a surrogate pair."""
    if not text:
        raise place.fault("chat_template is empty", "name a file that holds a chat template")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise place.fault(
            f"chat_template holds an unpaired surrogate at character {error.start}", REPAIR
        ) from error
    return text


def stored(
    texts: Mapping[str, str], place: Place, path: Path | None, format: str
) -> list[StoredTemplate]:
    """Named texts of one file. A lone default template has no name to tell it from others."""
    alone = list(texts) == [DEFAULT]
    return [
        StoredTemplate(text, None if alone else name, place.label, path, format)
        for name, text in texts.items()
    ]
