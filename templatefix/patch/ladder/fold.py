"""The last rung: the original, folded into a template that only ever appends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from templatefix.patch.bench import Bench
from templatefix.patch.candidate import Candidate
from templatefix.patch.ladder.fold_shape import shape_of
from templatefix.patch.ladder.fold_text import folded


def candidates(bench: Bench) -> Iterator[Candidate]:
    """Folds of the original."""
    shape = shape_of(bench)
    for each in (shape, replace(shape, tools=True), shape_of(bench, system=False)):
        yield Candidate(folded(bench.subject.template.text, each), 5, ())
