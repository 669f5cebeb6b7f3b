"""Where everything of the figure stands, in the units of an SVG whose letters are 11 units high.

A panel is no wider than a phone, and panels stand in a grid of their own figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from templatefix.findings.run_outcome import TurnRow
from templatefix.report.figure.reuse import Figure, Panel, bar
from templatefix.report.visible import head, visible

Part = Literal["reused", "again", "new"]
PARTS: tuple[tuple[Part, str], ...] = (
    ("reused", "reused from the cache"),
    ("again", "computed again"),
    ("new", "new in this prompt"),
)

WIDTH = 380
_LEFT, _RIGHT = 104, 34
_TOP, _BAR, _BETWEEN, _APART, _BOTTOM = 44, 15, 2, 12, 30
#: A number of so many digits fits into a segment of this width.
_DIGIT, _MARGIN = 7, 4
_TICKS = (1, 2, 5)
#: Letters of a heading that fit into a panel.
_HEADING = 48


@dataclass(frozen=True)
class Segment:
    part: Part
    x: float
    width: float
    tokens: int
    says: str

    @property
    def fits(self) -> bool:
        """Whether its number can be written into it."""
        return self.width >= _DIGIT * len(str(self.tokens)) + _MARGIN


@dataclass(frozen=True)
class Row:
    """A bar with what stands at its left and right."""

    label: str
    y: float
    segments: tuple[Segment, ...]
    total: int
    end: float


@dataclass(frozen=True)
class Drawing:
    """One panel. ``baseline`` is where the axis is, ``ticks`` are positions and their tokens;
    ``longest`` are the tokens of the figure's longest prompt."""

    title: str
    subtitle: str
    says: str
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, int], ...]
    baseline: float
    height: float
    longest: int
    width: float = WIDTH
    bar: float = _BAR


def drawings(figure: Figure) -> list[Drawing]:
    """The panels, all of the same scale."""
    longest = max(
        (row.prompt_tokens for panel in figure.panels for row in panel.shipped + panel.patched),
        default=1,
    )
    return [_drawing(panel, longest) for panel in figure.panels]


def _drawing(panel: Panel, longest: int) -> Drawing:
    scale = (WIDTH - _LEFT - _RIGHT) / max(1, longest)
    rows: list[Row] = []
    y = float(_TOP)
    for number, row in enumerate(panel.shipped):
        name = f"turn {row.turn}"
        rows.append(_row(name + (", shipped" if panel.patched else ""), name, row, y, scale))
        if panel.patched:
            y += _BAR + _BETWEEN
            rows.append(_row("patched", f"{name}, patched", panel.patched[number], y, scale))
        y += _BAR + _APART
    baseline = y - _APART + 4
    return Drawing(
        panel.scenario,
        head(visible("; ".join(panel.modes)), _HEADING),
        _says(panel),
        tuple(rows),
        tuple((round(_LEFT + tick * scale, 1), tick) for tick in _ticks(longest)),
        baseline,
        baseline + _BOTTOM,
        longest,
    )


def _row(label: str, name: str, row: TurnRow, y: float, scale: float) -> Row:
    one = bar(row)
    x = float(_LEFT)
    segments = []
    for (part, says), tokens in zip(PARTS, (one.reused, one.again, one.new), strict=True):
        if tokens:
            width = tokens * scale
            words = f"{name}: {tokens} tokens {says}"
            segments.append(Segment(part, round(x, 1), round(width, 1), tokens, words))
            x += width
    return Row(label, y, tuple(segments), one.total, round(x, 1))


def _ticks(longest: int) -> Iterator[int]:
    """Three to six round numbers from zero on."""
    steps = (tick * 10**power for power in range(12) for tick in _TICKS)
    step = next(step for step in steps if step * 5 >= longest)
    yield from range(0, longest + 1, step)


def _says(panel: Panel) -> str:
    """The panel in a sentence, for those who do not see it."""
    last = panel.shipped[-1]
    words = (
        f"Over {len(panel.shipped)} turns {panel.again} tokens are computed again and "
        f"{panel.lost} cached tokens cannot be reused; of the last prompt's {last.prompt_tokens} "
        f"tokens {last.hit_tokens or 0} are reused"
    )
    if panel.patched:
        words += f", {panel.patched[-1].hit_tokens or 0} of {panel.patched[-1].prompt_tokens} with "
        words += "the patch"
    return words + "."


def stacked(panels: list[Drawing]) -> tuple[list[tuple[float, float, Drawing]], float, float]:
    """The panels of a figure that stands alone, two in a row; with its width and height."""
    gap, placed, y = 16.0, [], 0.0
    for first in range(0, len(panels), 2):
        pair = panels[first : first + 2]
        placed += [(number * (WIDTH + gap), y, each) for number, each in enumerate(pair)]
        y += max(each.height for each in pair)
    columns = min(2, len(panels))
    return placed, columns * WIDTH + (columns - 1) * gap, y
