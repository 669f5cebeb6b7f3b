"""Rung 4: past answers printed by a branch of their own, built from what a model writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from templatefix.patching.bench import Bench
from templatefix.patching.candidate import Candidate
from templatefix.patching.edits import apply
from templatefix.patching.ladder.climb import pinned_from
from templatefix.patching.ladder.rebuild_case import Case
from templatefix.patching.ladder.rebuild_evidence import gather
from templatefix.patching.ladder.rebuild_place import Unbuildable
from templatefix.patching.ladder.rebuild_text import rebuilt

_NOTE = "Past answers have a branch of their own: generation prompt, texts and calls as written."
_PINNED = "Conditions on the position of other messages hold where the first prompt had them."
_REST = "Answers of which it is not known how a model writes them are printed as before."


def candidates(bench: Bench) -> Iterator[Candidate]:
    """Rebuilt branches without a failure on the bench.

    Raises :class:`Unbuildable` where there is none, with what stands in the way.
    """
    evidence = gather(bench)
    tokens = bench.subject.template.special_tokens
    why = "no rebuilt branch renders"
    found_any = False
    for holds in _scopes(bench):
        try:
            edits = rebuilt(bench.subject.parsed, evidence, holds, tokens)
        except Unbuildable as unbuildable:
            why = str(unbuildable)
            continue
        text = apply(bench.subject.parsed.text, edits)
        trial = bench.trial(text)
        if trial.fault is not None:
            why = f"a rebuilt branch does not render: {trial.fault}"
            continue
        if not trial.failures:
            found_any = True
            yield Candidate(text, 4, (_NOTE, _REST), edits)
            continue
        first = trial.failures[0]
        why = (
            f"a rebuilt branch leaves {len(trial.failures)} of {trial.comparisons} comparisons "
            f"broken: {first.code} in {first.run.plan.id}, request {first.comparison.turn}"
        )
        if len(trial.failures) < len(bench.original.failures):
            # What is no answer may still move with the position: the head, most of all.
            for found in pinned_from(bench, trial, 4):
                found_any = True
                yield replace(found, notes=(_NOTE, _REST, _PINNED))
    if not found_any:
        raise Unbuildable(why)


def _scopes(bench: Bench) -> Iterator[Callable[[Case], bool]]:
    """Which answers are rebuilt: under ``lossless`` none that the original shortens in history."""
    if bench.policy == "lossless":
        yield lambda case: not case.kind.thought and case.place.state in ("closed", "none")
        yield lambda case: case.kind.thought or case.place.state in ("closed", "none")
    yield lambda case: True
