"""The lines of a template that a finding is about, with the guilty places marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from templatefix.findings.finding import Location
from templatefix.report.excerpt import source_lines

#: Lines around a place, lines of a long place, and characters around it in a long line.
_AROUND, _LONGEST, _BESIDE = 2, 6, 160

ROLES = {
    "cause": "cause",
    "printed-now": "printed now",
    "printed-then": "printed then",
    "source": "here",
}


@dataclass(frozen=True)
class Stretch:
    """A part of a line; ``role`` is that of the place that it belongs to, or empty."""

    text: str
    role: str = ""


@dataclass(frozen=True)
class SourceLine:
    """A line with what is said about the places that begin in it: pairs of role and note.

    Where ``number`` is None, lines were left out.
    """

    number: int | None
    stretches: tuple[Stretch, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


def frame(source: str | None, locations: Sequence[Location]) -> list[SourceLine]:
    """The lines around all places, in order; none where there is nothing to show."""
    lines = [] if source is None else source_lines(source)
    places = [place for place in locations if 1 <= place.line <= len(lines)]
    wanted = sorted({number for place in places for number in _wanted(place, len(lines))})
    shown: list[SourceLine] = []
    for number in wanted:
        if shown and shown[-1].number != number - 1:
            shown.append(SourceLine(None))
        here = [place for place in places if place.line == number]
        # That a mark without a note is "here" can be seen.
        notes = tuple(
            (ROLES.get(place.role, place.role), place.note)
            for place in here
            if place.note or place.role != "source"
        )
        stretches = tuple(_stretches(lines[number - 1], number, places))
        shown.append(SourceLine(number, stretches, notes))
    return shown


def _wanted(place: Location, lines: int) -> range:
    end = min(place.end_line, place.line + _LONGEST)
    return range(max(1, place.line - _AROUND), min(lines, end + _AROUND) + 1)


def _stretches(line: str, number: int, places: Sequence[Location]) -> Iterator[Stretch]:
    marks = [mark for place in places if (mark := _mark(line, number, place)) is not None]
    edges = {0, len(line)} | {edge for start, end, _ in marks for edge in (start, end)}
    first = min((start for start, _, _ in marks), default=0)
    last = max((end for _, end, _ in marks), default=0)
    cut = sorted(edges)
    for start, end in pairwise(cut):
        role = next((role for a, b, role in marks if a <= start and end <= b), "")
        text = line[start:end]
        if not role:
            text = _shortened(text, before=end <= first or not marks, after=start >= last)
        elif len(text) > 4 * _BESIDE:
            text = text[: 2 * _BESIDE] + " … " + text[-2 * _BESIDE :]
        yield Stretch(text, role)


def _mark(line: str, number: int, place: Location) -> tuple[int, int, str] | None:
    """Where in a line a place is: it begins, ends or lies in it."""
    if not place.line <= number <= place.end_line:
        return None
    blank = len(line) - len(line.lstrip())
    if place.line == place.end_line and place.column == place.end_column:
        return (blank, len(line), place.role) if blank < len(line) else None  # a line and no more
    start = place.column - 1 if number == place.line else blank
    end = place.end_column - 1 if number == place.end_line else len(line)
    start, end = min(start, len(line)), min(end, len(line))
    return (start, end, place.role) if start < end else None


def _shortened(text: str, *, before: bool, after: bool) -> str:
    """Whole templates are often written on one line: what is far from a mark is left out."""
    if before and after:
        return text if len(text) <= 2 * _BESIDE else text[: 2 * _BESIDE] + " …"
    if before:
        return text if len(text) <= _BESIDE else "… " + text[-_BESIDE:]
    if after:
        return text if len(text) <= _BESIDE else text[:_BESIDE] + " …"
    return text if len(text) <= 2 * _BESIDE else text[:_BESIDE] + " … " + text[-_BESIDE:]
