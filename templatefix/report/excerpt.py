"""Two things that findings show: a line of the template with a caret, and a divergence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from templatefix.findings.finding import Divergence, Location
from templatefix.report.visible import cells, head, tail, visible, wrapped

# Jinja counts these as one line break each.
_NEWLINE = re.compile(r"\r\n|\r|\n")
# How much of the common text stands before a divergence, in cells.
_BEFORE = 24


@dataclass(frozen=True)
class Line:
    """A line to print, and what it is, for those who colour it: ``source``, ``caret``,
    ``stream``, ``prompt`` or ``note``."""

    text: str
    kind: str


@lru_cache(maxsize=2)  # a report has many findings about one template
def source_lines(source: str) -> Sequence[str]:
    """The lines of a template as Jinja numbers them."""
    return _NEWLINE.split(source)


def code_frame(locations: Sequence[Location], source: str | None, width: int) -> list[Line]:
    """The first location with a caret beneath and its note, each other one with an arrow."""
    lines = [] if source is None else source_lines(source)
    gutter = max((len(str(location.line)) for location in locations), default=1)
    gutter = max(gutter, 2)
    shown: list[Line] = []
    for index, location in enumerate(locations):
        if 1 <= location.line <= len(lines):
            text = lines[location.line - 1]
            start = min(location.column - 1, len(text))
            end = location.end_column - 1 if location.end_line == location.line else len(text)
        else:
            text, start, end = location.snippet, 0, len(_NEWLINE.split(location.snippet)[0])
            text = text[:end]
        if not text.strip():
            continue
        if index == 0:
            shown += _pointed(location, text, start, end, gutter, width)
        else:
            shown += _noted(location, text, start, gutter, width)
    return shown


def _pointed(
    location: Location, text: str, start: int, end: int, gutter: int, width: int
) -> list[Line]:
    before, span, after = _window(text, start, end, width - gutter - 3)
    indent = " " * cells(before)
    caret = "^" * max(1, cells(span))
    shown = [Line(f"{location.line:>{gutter}} | {before}{span}{after}", "source")]
    margin = " " * gutter + " | "
    note = visible(location.note)
    pointer = f"{margin}{indent}{caret}"
    if cells(pointer) + 1 + cells(note) <= width:
        return [*shown, Line(f"{pointer} {note}".rstrip(), "caret")]
    shown.append(Line(pointer, "caret"))
    # A note that does not fit beside the caret stands below, as far right as it can.
    shift = min(len(indent), max(0, width - len(margin) - cells(note)))
    return shown + [
        Line(f"{margin}{' ' * shift}{part}", "caret")
        for part in _wrapped(note, width - len(margin) - shift)
    ]


def _noted(location: Location, text: str, start: int, gutter: int, width: int) -> list[Line]:
    note = f"   <- {visible(location.note)}" if location.note else ""
    room = width - gutter - 3
    if cells(text) + cells(note) > room and cells(note) > room // 2:
        before, span, after = _window(text, start, start, room)
        below = _wrapped(visible(location.note), room - 3)
        return [
            Line(f"{location.line:>{gutter}} | {before}{span}{after}", "source"),
            *(
                Line(f"{' ' * gutter} | {'<- ' if not number else '   '}{part}", "caret")
                for number, part in enumerate(below)
            ),
        ]
    before, span, after = _window(text, start, start, room - cells(note))
    return [Line(f"{location.line:>{gutter}} | {before}{span}{after}{note}", "source")]


def _window(text: str, start: int, end: int, room: int) -> tuple[str, str, str]:
    """The line cut to ``room`` cells around the span: what is before, in and after it.

    Whole templates are often written on one line.
    """
    before, span, after = visible(text[:start]), visible(text[start:end]), visible(text[end:])
    if cells(before) + cells(span) + cells(after) <= room:
        return before, span, after
    span = head(span, max(8, room - min(cells(before), room // 3)))
    left = min(cells(before), max(room // 3, room - cells(span) - cells(after)))
    before = tail(before, min(left, max(0, room - cells(span)))) if before else ""
    rest = room - cells(before) - cells(span)
    return before, span, head(after, rest) if rest > 0 else ""


def divergence_lines(divergence: Divergence, width: int) -> list[Line]:
    """The stream above the next prompt, aligned where they part."""
    before = tail(visible(divergence.stream.before), _BEFORE)
    room = max(16, width - len("stream ") - cells(before) - 1)
    sides = (("stream", divergence.stream), ("prompt", divergence.prompt))
    same_text = divergence.stream.text[:200] == divergence.prompt.text[:200]
    shown = []
    for name, side in sides:
        text = visible(side.text) if side.text else "(ends here)"
        # Spaces at the end of a line cannot be seen.
        text = text.rstrip(" ") or "·" * len(text)
        if same_text:
            text = f"tokens {' '.join(map(str, side.ids[:8]))}  {text}"
        shown.append(Line(f"{name} {before}│{head(text, room)}", name))
    return shown


def _wrapped(text: str, width: int) -> list[str]:
    return wrapped(text, max(20, width))
