"""The figure in a terminal: a line for each prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from templatefix.findings.run_outcome import TurnRow
from templatefix.report.figure.reuse import Bar, Figure, Panel, bar
from templatefix.report.visible import head, visible

_REUSED, _AGAIN, _NEW = "█", "▒", "░"
_BARS = 36


def figure_lines(figure: Figure, width: int) -> Iterator[str]:
    """Lines of at most ``width`` cells; none where nothing is computed again."""
    panels = [panel for panel in figure.panels if panel.again]
    if not panels:
        return
    about = "~" if figure.approximate else ""
    yield head(
        f"tokens of each prompt: {_REUSED} cached, {_AGAIN} computed again, {_NEW} new", width
    )
    longest = max(row.prompt_tokens for panel in panels for row in _rows(panel))
    for panel in panels:
        yield head(visible(f"{'; '.join(panel.modes)}, {panel.scenario}"), width)
        if panel.patched:
            yield head(f"  as shipped, and patched under {panel.policy}", width)
        for number, row in enumerate(panel.shipped):
            yield _line(f"turn {row.turn}", bar(row), longest, about, width)
            if panel.patched:
                yield _line("patched", bar(panel.patched[number]), longest, about, width)


def _rows(panel: Panel) -> Sequence[TurnRow]:
    return panel.shipped + panel.patched


def _line(name: str, one: Bar, longest: int, about: str, width: int) -> str:
    counts = f"{about}{one.reused} + {about}{one.again} + {about}{one.new}"
    name = f"  {name:<7}  "
    room = min(_BARS, width - len(name) - len(counts) - 2)
    if room < 8:
        return head(f"{name}{counts}", width)
    drawn = "".join(
        sign * cells
        for sign, cells in zip((_REUSED, _AGAIN, _NEW), _shares(one, longest, room), strict=True)
    )
    return f"{name}{drawn:<{room}}  {counts}"


def _shares(one: Bar, longest: int, room: int) -> tuple[int, int, int]:
    """Cells for each part: rounded where the parts end, so that the bar has its length."""
    ends = [one.reused, one.reused + one.again, one.total]
    cells = [round(end / longest * room) for end in ends]
    return cells[0], cells[1] - cells[0], cells[2] - cells[1]
