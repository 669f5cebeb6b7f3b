"""Changes to a template's source: spans replaced by text, never an AST printed back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

#: A line as patch(1) counts them: only a newline ends it.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, order=True)
class Edit:
    """Characters ``start`` to ``end`` of the newline-normalised source become ``text``."""

    start: int
    end: int
    text: str

    @property
    def size(self) -> int:
        """Characters added and removed."""
        return len(self.text) + self.end - self.start


class Overlap(Exception):
    """Two edits change the same characters."""


def apply(source: str, edits: Iterable[Edit]) -> str:
    """The source with all edits made. Raises :class:`Overlap`."""
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits):
        if edit.start < position:
            raise Overlap(f"edits overlap at character {edit.start}")
        pieces += [source[position : edit.start], edit.text]
        position = edit.end
    return "".join([*pieces, source[position:]])


def unified_diff(before: str, after: str, name: str) -> str:
    """A unified diff of two templates, the empty string if they are equal."""
    lines = difflib.unified_diff(
        _LINE.findall(before),
        _LINE.findall(after),
        f"a/{name}",
        f"b/{name}",
    )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )
