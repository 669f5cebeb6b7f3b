"""The last rung: the original, folded into a template that only ever appends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from templatefix.patching.bench import Bench
from templatefix.patching.candidate import Candidate
from templatefix.patching.ladder.fold_shape import shape_of
from templatefix.patching.ladder.fold_text import Shape, folded
from templatefix.patching.long_chat import MANY, steps_a_turn

_FOLDED = "Wrapped the template in a macro: each answer is rendered as it was generated, once."
_COSTS = (
    "Costs {} executed outputs and loop bodies a turn at {turns} turns, where the template alone "
    "costs {}, and grows with the turns no faster."
)
_DROPS = "Reasoning that the template drops from history stays dropped."
_KEEPS = "Reasoning that a client replays is rendered where it was generated."


def candidates(bench: Bench) -> Iterator[Candidate]:
    """Folds without a failure on the bench; the best one there is if all have some.

    Showing tools and instructions to the original once, with the first question, costs least; the
    others are for templates that number tool results, need the tools with every piece, or print
    the instructions with the last question.
    """
    best: tuple[int, Candidate] | None = None
    for shape in _shapes(bench):
        candidate = _candidate(bench, shape)
        trial = bench.trial(candidate.text)
        if trial.fault is None and not trial.failures:
            yield candidate
            best = (0, candidate)
        count = len(trial.failures) if trial.fault is None else len(bench.plans) ** 2
        if best is None or count < best[0]:
            best = (count, candidate)
    if best is not None and best[0]:
        yield best[1]


def _shapes(bench: Bench) -> Iterator[Shape]:
    shape = shape_of(bench)
    yield shape
    yield replace(shape, remembers=True)
    yield replace(shape, tools=True)
    yield shape_of(bench, system=False)


def _candidate(bench: Bench, shape: Shape) -> Candidate:
    text = folded(bench.subject.template.text, shape)
    notes = [_FOLDED, _DROPS if shape.drops else _KEEPS]
    # Counted: a measured time would make another header on another machine. The report has it.
    counted = steps_a_turn(text, bench)
    if counted is not None:
        notes.append(_COSTS.format(*counted, turns=MANY))
    return Candidate(text, 5, tuple(notes))
