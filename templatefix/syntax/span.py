"""Places in a template's source."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

#: What Jinja takes for a line break.
_NEWLINE = re.compile(r"\r\n|\r|\n")


class Span(NamedTuple):
    """Characters ``start`` up to, not including, ``end`` of the newline-normalised source."""

    start: int
    end: int


class Position(NamedTuple):
    """A place as an editor shows it: both figures are 1-based, columns count characters."""

    line: int
    column: int


def normalise_newlines(text: str) -> str:
    """The text with every line break spelt as a newline: what spans are counted in."""
    return _NEWLINE.sub("\n", text)


class Lines:
    """Finds the line and column of a character."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def position(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def offset(self, line: int, column: int) -> int:
        """The character at a position; beyond the text for a line that it does not have."""
        return self._starts[min(line, len(self._starts)) - 1] + column - 1

    def span_of_line(self, line: int, text: str) -> Span:
        """The characters of a 1-based line of ``text``, without its line break."""
        start = self._starts[line - 1]
        end = text.find("\n", start)
        return Span(start, len(text) if end < 0 else end)
