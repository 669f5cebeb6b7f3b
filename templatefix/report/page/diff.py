"""A patch as lines that went, came and stayed, with the words that changed marked in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from templatefix.report.excerpt import source_lines
from templatefix.report.page.source import Stretch

#: Unchanged lines around a change; characters kept of what did not change in a long line, and of a
#: whole line that did; lines in all; the longest lines that are compared word by word.
_AROUND, _BESIDE, _LONGEST, _MOST, _COMPARED = 3, 80, 3000, 400, 20_000
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)

Kind = Literal["same", "gone", "came", "gap"]


@dataclass(frozen=True)
class DiffLine:
    """A line with its number before and after; ``role`` of a stretch is ``changed`` or empty."""

    kind: Kind
    before: int | None
    after: int | None
    stretches: tuple[Stretch, ...]


def diff(before: str, after: str) -> list[DiffLine]:
    """The changes with some lines around them; the last line tells where more were left out."""
    ours, theirs = source_lines(before), source_lines(after)
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    lines: list[DiffLine] = []
    for group in matcher.get_grouped_opcodes(_AROUND):
        if lines or group[0][1] or group[0][3]:
            lines.append(DiffLine("gap", None, None, ()))
        for name, a, b, c, d in group:
            if name == "equal":
                lines += [
                    DiffLine("same", a + i + 1, c + i + 1, (Stretch(_cut(line, 5 * _BESIDE)),))
                    for i, line in enumerate(ours[a:b])
                ]
            else:
                lines += _changed(ours[a:b], theirs[c:d], a + 1, c + 1)
    if len(lines) > _MOST:
        more = f"{len(lines) - _MOST} more lines: templatefix patch --diff prints all of them"
        lines = [*lines[:_MOST], DiffLine("gap", None, None, (Stretch(more),))]
    return lines


def _changed(
    gone: Sequence[str], came: Sequence[str], before: int, after: int
) -> Iterator[DiffLine]:
    pairs = dict(_alike(gone, came))
    words = {i: _words(gone[i], came[j]) for i, j in pairs.items()}
    back = {j: i for i, j in pairs.items()}
    for i, line in enumerate(gone):
        shown = words[i][0] if i in words else (Stretch(_cut(line, _LONGEST)),)
        yield DiffLine("gone", before + i, None, shown)
    for j, line in enumerate(came):
        shown = words[back[j]][1] if j in back else (Stretch(_cut(line, _LONGEST)),)
        yield DiffLine("came", None, after + j, shown)


def _alike(gone: Sequence[str], came: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Lines that were changed, and not replaced by another one."""
    free = 0
    for i, line in enumerate(gone):
        for j in range(free, len(came)):
            if max(len(line), len(came[j])) > _COMPARED:
                continue
            matcher = SequenceMatcher(None, line, came[j], autojunk=len(line) > 500)
            if line.strip() and matcher.quick_ratio() > 0.6 and matcher.ratio() > 0.6:
                yield i, j
                free = j + 1
                break


def _words(before: str, after: str) -> tuple[tuple[Stretch, ...], tuple[Stretch, ...]]:
    ours, theirs = _WORD.findall(before), _WORD.findall(after)
    gone: list[Stretch] = []
    came: list[Stretch] = []
    for name, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        role = "" if name == "equal" else "changed"
        if a < b:
            gone.append(Stretch(_kept("".join(ours[a:b]), role), role))
        if c < d:
            came.append(Stretch(_kept("".join(theirs[c:d]), role), role))
    return tuple(gone), tuple(came)


def _kept(text: str, role: str) -> str:
    if role or len(text) <= 3 * _BESIDE:
        return _cut(text, _LONGEST)
    return text[:_BESIDE] + " … " + text[-_BESIDE:]


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else line[:most] + " …"
