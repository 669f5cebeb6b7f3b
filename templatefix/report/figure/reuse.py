"""What the figure shows: a panel for each mode, in it a bar for every prompt of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from templatefix.findings.outcome import Report
from templatefix.findings.repair import RepairReport
from templatefix.findings.run_outcome import RunOutcome, TurnRow
from templatefix.report.kwargs import kwargs_text

#: Conversations by how much they say about a mode: chats of four turns before tool calls.
_FIRST = ("reasoning-chat", "plain-chat", "plain-chat-no-system", "tool-loop-then-user")
#: More panels, and more turns of a panel, make no better figure.
_PANELS, _TURNS = 6, 8


@dataclass(frozen=True)
class Bar:
    """The tokens of one prompt: found in the cache, computed again though the server had computed
    them (somewhere else in its stream), and new."""

    reused: int
    again: int
    new: int

    @property
    def total(self) -> int:
        return self.reused + self.again + self.new


@dataclass(frozen=True)
class Panel:
    """One conversation in one mode, or in several that come to the same figures.

    ``patched`` are the turns under the repair of ``policy``; none where there is no repair that
    changes them. ``more_turns`` were left out.
    """

    modes: tuple[str, ...]
    scenario: str
    shipped: tuple[TurnRow, ...]
    patched: tuple[TurnRow, ...] = ()
    policy: str | None = None
    more_turns: int = 0

    @property
    def lost(self) -> int:
        """Cached tokens that cannot be reused, over all turns."""
        return lost_tokens(self.shipped)

    @property
    def again(self) -> int:
        """Tokens that are computed again, over all turns."""
        return sum(row.recomputed_tokens or 0 for row in self.shipped)


@dataclass(frozen=True)
class Figure:
    """``name`` is the template's, ``more_modes`` counts those without a panel."""

    name: str
    panels: tuple[Panel, ...]
    approximate: bool
    block_size: int
    more_modes: int = 0


def bar(row: TurnRow) -> Bar:
    hit, again = row.hit_tokens or 0, row.recomputed_tokens or 0
    return Bar(hit, again, row.prompt_tokens - hit - again)


def lost_tokens(rows: Iterable[TurnRow]) -> int:
    return sum((row.ideal_tokens or 0) - (row.hit_tokens or 0) for row in rows)


def figure_of(report: Report, name: str) -> Figure:
    """The figure of a report; without panels where no run was made that has figures."""
    panels: list[Panel] = []
    for run in _chosen(report.runs):
        panel = _panel(run, report.repairs)
        alike = next((i for i, each in enumerate(panels) if _same(each, panel)), None)
        if alike is None:
            panels.append(panel)
        else:
            panels[alike] = replace(panels[alike], modes=panels[alike].modes + panel.modes)
    # What loses most is what the figure is for.
    panels.sort(key=lambda panel: panel.lost == 0)
    return Figure(
        name,
        tuple(panels[:_PANELS]),
        report.tokenizer_approximate,
        report.block_size,
        sum(len(panel.modes) for panel in panels[_PANELS:]),
    )


def _same(one: Panel, other: Panel) -> bool:
    return replace(one, modes=()) == replace(other, modes=())


def _chosen(runs: Sequence[RunOutcome]) -> Iterator[RunOutcome]:
    """The telling run of each mode: one that breaks, if any does, and a chat before tool calls."""
    modes: dict[str, list[RunOutcome]] = {}
    for run in runs:
        plain = run.requested or (run.core and run.replay in ("raw", "given"))
        if plain and run.client == "faithful" and len(run.turns) > 1:
            modes.setdefault(_mode(run.kwargs), []).append(run)
    for found in modes.values():
        yield min(found, key=_rank)


def _rank(run: RunOutcome) -> tuple[bool, bool, int, int]:
    known = run.scenario in _FIRST
    return (
        not run.requested,
        run.preserving is not False,
        _FIRST.index(run.scenario) if known else len(_FIRST),
        -len(run.turns),
    )


def _panel(run: RunOutcome, repairs: Sequence[RepairReport]) -> Panel:
    panel = Panel(
        (_mode(run.kwargs),),
        run.scenario,
        run.turns[:_TURNS],
        more_turns=max(0, len(run.turns) - _TURNS),
    )
    # The mildest policy that repairs the run is the one that is shown.
    for repair in repairs:
        after = next((each for each in repair.runs if each.id == run.id), None)
        if run.preserving is False and after is not None and after.preserving:
            return replace(panel, patched=after.turns[:_TURNS], policy=repair.policy)
    return panel


def _mode(kwargs: Mapping[str, Any]) -> str:
    return kwargs_text(kwargs) or "default mode"
