"""Why measurements differ from predictions, as far as the figures themselves tell."""

from __future__ import annotations

from dataclasses import replace

from templatefix.findings.verification import LiveRun, LiveTurn
from templatefix.replay.accounting import hit_tokens

#: Block sizes that servers are run with, from a radix cache to the chunks of a store.
_BLOCK_SIZES = (1, 16, 32, 64, 128, 256, 512)


def explained(run: LiveRun, block_size: int) -> LiveRun:
    """The run with what would explain its differences among its notes."""
    found = _warm(run)
    differing = [turn for turn in run.compared if not turn.agrees]
    if differing:
        found += (
            _nothing_found(run)
            or _prompts_only(run, differing)
            or _blocks(run, block_size)
            or _less(differing)
        )
    return replace(run, notes=(*run.notes, *found)) if found else run


def compared_with_served(candidate: LiveRun, served: LiveRun) -> LiveRun:
    """The candidate's run, with a note where nothing shows that the candidate was rendered."""
    figures = [
        [(turn.prompt, turn.completion, turn.reuse) for turn in run.turns]
        for run in (candidate, served)
    ]
    if candidate.fault is not None or figures[0] != figures[1]:
        return candidate
    note = (
        "every figure is that of the served template: the server ignores the candidate, or both "
        "render alike"
    )
    return replace(candidate, notes=(*candidate.notes, note))


def _warm(run: LiveRun) -> list[str]:
    first = run.turns[0] if run.turns else None
    if first is None or not first.cached or any("turn 1: the" in note for note in run.notes):
        return []
    return [
        f"turn 1 found {first.cached} tokens that were cached before this conversation: later "
        "turns may find more than it left, too"
    ]


def _prompts_only(run: LiveRun, differing: list[LiveTurn]) -> list[str]:
    if any(t.prompt_only is None or t.cached not in t.prompt_only for t in run.compared):
        return []
    if not any(turn.cached for turn in differing):
        return []
    return [
        "the hits are those of a store that holds prompts and no answers: its decode write-back "
        "is off (--no-write-back expects that)"
    ]


def _nothing_found(run: LiveRun) -> list[str]:
    if any(turn.cached for turn in run.compared):
        return []
    if any(turn.prompt_only is not None for turn in run.compared):
        return ["nothing was found once the local cache was empty: the server may have no store"]
    return ["nothing was found in any turn: prefix caching may be off"]


def _blocks(run: LiveRun, block_size: int) -> list[str]:
    """A block size under which all turns agree."""
    for size in _BLOCK_SIZES:
        if size != block_size and all(
            _hit(run, turn, size) == turn.cached for turn in run.compared
        ):
            return [f"blocks of {size} tokens explain every turn (--block-size {size})"]
    return []


def _less(differing: list[LiveTurn]) -> list[str]:
    if any(
        t.cached is None or t.predicted is None or t.cached > t.predicted.low for t in differing
    ):
        return []
    return [
        "less was found than predicted: blocks were evicted, or the model has sliding-window or "
        "state-space layers, for which the prediction is an upper bound"
    ]


def _hit(run: LiveRun, turn: LiveTurn, block_size: int) -> int | None:
    """The hit on the stream right before, where its reuse is exact."""
    if turn.reuse is None or not turn.reuse.exact:
        return None
    before = run.turns[turn.turn - 2]
    return hit_tokens(turn.reuse.low, before.stream, turn.prompt, block_size)
