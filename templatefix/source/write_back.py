"""A template put back into the JSON file that holds it; every other byte stays as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from templatefix.source.reading import Place, decode, parse_object
from templatefix.source.stored import DEFAULT, named_texts

_BOM = b"\xef\xbb\xbf"
_KEY = "chat_template"
_HINT = "leave --emit out, and serve the template with --chat-template"
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class _Value:
    """A JSON value, and the characters of the document that spell it."""

    value: Any
    start: int
    end: int


def stored_text(content: bytes, name: str | None, place: Place) -> str:
    """A template's text in a JSON file; ``name`` picks one of several named templates.

    Raises ``TargetError`` when the file is no JSON object or has no such template.
    """
    texts = named_texts(parse_object(decode(content, place), place).get(_KEY), place)
    if not texts:
        raise place.fault("has no chat_template to replace", _HINT)
    wanted = name or DEFAULT
    if wanted not in texts:
        there = ", ".join(sorted(texts))
        raise place.fault(f"has no template named {wanted!r}", f"it has: {there}")
    return texts[wanted]


def write_back(content: bytes, name: str | None, template: str, place: Place) -> bytes:
    """The bytes of a JSON file in which one template's text was replaced.

    Raises ``TargetError`` like :func:`stored_text`.
    """
    if stored_text(content, name, place) == template:
        return content
    document = decode(content, place)
    spot = _spot(document, name or DEFAULT)
    spelled = json.dumps(template, ensure_ascii=_escapes(document, spot))
    changed = document[: spot.start] + spelled + document[spot.end :]
    return (_BOM if content.startswith(_BOM) else b"") + changed.encode("utf-8")


def _spot(document: str, wanted: str) -> _Value:
    """Where the wanted template's text stands. The last of equal keys counts, as in ``json``."""
    entry = _member(document, _after_blanks(document, 0), _KEY)
    if isinstance(entry.value, str):
        return entry
    if isinstance(entry.value, dict):
        return _member(document, entry.start, wanted)
    items = _items(document, entry.start)
    named = [item for item in items if item.value.get("name") == wanted]
    return _member(document, named[-1].start, "template")


def _member(document: str, start: int, key: str) -> _Value:
    """The value of a key in the object at ``start``."""
    return [value for name, value in _pairs(document, start) if name == key][-1]


def _pairs(document: str, start: int) -> Iterator[tuple[str, _Value]]:
    """The members of the object that begins at ``start``."""
    at = _after_blanks(document, start + 1)
    while document[at] != "}":
        name, value = _pair_at(document, at)
        yield name, value
        at = _after_comma(document, value.end)


def _items(document: str, start: int) -> Iterator[_Value]:
    """The items of the array that begins at ``start``."""
    at = _after_blanks(document, start + 1)
    while document[at] != "]":
        item = _value_at(document, at)
        yield item
        at = _after_comma(document, item.end)


def _pair_at(document: str, at: int) -> tuple[str, _Value]:
    name = _value_at(document, at)
    colon = _after_blanks(document, name.end)
    return name.value, _value_at(document, _after_blanks(document, colon + 1))


def _value_at(document: str, at: int) -> _Value:
    value, end = _DECODER.raw_decode(document, at)
    return _Value(value, at, end)


def _after_comma(document: str, at: int) -> int:
    """Where the next item begins, or the bracket that closes them."""
    at = _after_blanks(document, at)
    return _after_blanks(document, at + 1) if document[at] == "," else at


def _after_blanks(document: str, at: int) -> int:
    while document[at] in " \t\n\r":
        at += 1
    return at


def _escapes(document: str, spot: _Value) -> bool:
    """Whether the file spells characters beyond ASCII as escapes."""
    written = document[spot.start : spot.end]
    return written.isascii() and (not spot.value.isascii() or document.isascii())
