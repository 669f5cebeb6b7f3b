"""Untrusted text made safe to print, and measured in terminal cells.

Templates and conversations may hold escape sequences, bidirectional overrides and characters of
no width. None of them reaches a terminal or a log: they are shown as escapes.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata

# Control characters, DEL and C1, the soft hyphen, marks of direction and of no width, line and
# paragraph separators, variation selectors, annotations, tags, and surrogates without a partner.
_UNSAFE_IN_LINES = (
    "\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
)
_UNSAFE_CHARACTER = re.compile(f"[\n{_UNSAFE_IN_LINES}]")
_UNSAFE_CHARACTER_IN_LINES = re.compile(f"[{_UNSAFE_IN_LINES}]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_SHORT = {"\n": "⏎", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """The text on one line: a newline as ``⏎``, every other unsafe character as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE_CHARACTER.sub(lambda found: _SHORT.get(found[0]) or _escape(found[0]), text)


def wrapped(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """The text made safe and wrapped to lines of ``width`` characters.

    ``first`` begins the first line, ``indent`` all others and that one, too, where there is none.
    """
    shown = visible(text)
    begin = indent if first is None else first
    if len(begin) + len(shown) <= width:
        line = shown.rstrip(" ")
        return [begin + line] if line else []
    return textwrap.wrap(
        shown, width, initial_indent=begin, subsequent_indent=indent, break_on_hyphens=False
    )


def json_safe(document: str) -> str:
    """A JSON document whose strings hold no unsafe character unescaped; line breaks stay."""
    return _UNSAFE_CHARACTER_IN_LINES.sub(lambda found: _json_escape(found[0]), document)


def without_surrogates(text: str) -> str:
    """Text that any consumer can encode: lone surrogates become U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def cells(text: str) -> int:
    """How many terminal cells the text takes."""
    if text.isascii():
        return len(text)
    return len(text) + sum(_cells_of(character) - 1 for character in _NOT_ASCII.findall(text))


def _cells_of(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def head(text: str, limit: int) -> str:
    """The beginning of printable text, with an ellipsis where it was cut to ``limit`` cells."""
    if cells(text) <= limit:
        return text
    return text[: _fitting(text, limit - 1)] + "…"


def tail(text: str, limit: int) -> str:
    """The end of printable text, with an ellipsis where it was cut to ``limit`` cells."""
    if cells(text) <= limit:
        return text
    return "…" + text[len(text) - _fitting(text[::-1], limit - 1) :]


def _fitting(text: str, limit: int) -> int:
    """How many leading characters fit into ``limit`` cells."""
    if text[: limit + 1].isascii():
        return min(len(text), limit)
    used = 0
    for index, character in enumerate(text):
        used += _cells_of(character)
        if used > limit:
            return index
    return len(text)
