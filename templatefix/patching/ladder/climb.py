"""Rungs 2 and 3: one to a few edits, each proposed for the first thing that is still wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from templatefix.patching.bench import Bench, Failure, Trial
from templatefix.patching.candidate import Candidate
from templatefix.patching.edits import Edit, Overlap, apply
from templatefix.patching.ladder.variants import MOST, variants
from templatefix.patching.proposals.insert import inserts
from templatefix.patching.proposals.pin import pins
from templatefix.patching.proposals.scene import Scene
from templatefix.patching.proposals.undo import undos
from templatefix.replay.run import Plan

#: States kept from one step to the next, steps, proposals looked at for one state, and plans on
#: which proposals are judged before a state is driven through all of them.
WIDTH, STEPS, PROPOSALS, SAMPLE = 4, 7, 100, 8

#: A condition that is cut off reads worse than one that is widened: what that counts in characters.
HARD = 150

Proposer = Callable[[Scene], Iterator[tuple[Edit, ...]]]


@dataclass(frozen=True)
class _State:
    """A text on the way, how it fared on the sample, and how many characters were changed."""

    text: str
    trial: Trial
    size: int

    @property
    def score(self) -> tuple[int, int, int]:
        missing = sum(
            len(f.comparison.before.stream) - f.comparison.characters for f in self.trial.failures
        )
        return len(self.trial.failures), missing, self.size


def pinned(bench: Bench) -> Iterator[Candidate]:
    """Rung 2: conditions widened or replaced, and nothing else."""
    return _climb(bench, (pins,), 2)


def edited(bench: Bench) -> Iterator[Candidate]:
    """Rung 3: outputs edited, together with pins where both are needed."""
    return _climb(bench, (pins, inserts, undos), 3)


def pinned_from(bench: Bench, begun: Trial, rung: int) -> Iterator[Candidate]:
    """Candidates of a higher rung that lack nothing but conditions, from its ``begun`` text."""
    return _climb(bench, (pins,), rung, begun)


def _climb(
    bench: Bench, proposers: Sequence[Proposer], rung: int, begun: Trial | None = None
) -> Iterator[Candidate]:
    """Candidates without a failure on the bench, the smallest first as far as they are met."""
    begun = bench.original if begun is None else begun
    sample = _sample(begun.failures)
    beam = [_State(begun.text, bench.trial(begun.text, sample), 0)]
    seen = {begun.text}
    for _ in range(STEPS):
        grown: list[_State] = []
        lacking: list[Plan] = []
        for state in beam:
            for found in _grow(bench, state, proposers, sample, seen):
                if found.trial.failures:
                    grown.append(found)
                    continue
                whole = bench.trial(found.text)
                if whole.fault is not None:
                    continue
                if not whole.failures:
                    yield Candidate(found.text, rung, (), ())
                    continue
                # The sample was too small: what it lacked joins it for the next step.
                lacking += _sample(whole.failures)[:SAMPLE]
                grown.append(found)
        if lacking:
            sample = _joined(sample, lacking)
            grown = [_driven(bench, state, sample) for state in grown]
        grown.sort(key=lambda state: state.score)
        beam = grown[:WIDTH]
        if not beam:
            return


def _driven(bench: Bench, state: _State, sample: Sequence[Plan]) -> _State:
    assert state.trial.server is not None
    return replace(state, trial=bench.drive(state.text, state.trial.server, sample))


def _joined(sample: Sequence[Plan], more: Sequence[Plan]) -> tuple[Plan, ...]:
    found = list(sample)
    for plan in more:
        if plan not in found:
            found.append(plan)
    return tuple(found)


def _grow(
    bench: Bench,
    state: _State,
    proposers: Sequence[Proposer],
    sample: Sequence[Plan],
    seen: set[str],
) -> Iterator[_State]:
    """The states that one more step leads to, none of them worse."""
    if not state.trial.failures:
        return
    scene = Scene(bench, state.trial, state.trial.failures[0])
    # Text that is there, but changed, is rarely a matter of conditions.
    altered = scene.failure.code in ("TF104", "TF106")
    ordered = reversed(proposers) if altered else proposers
    proposals = (edits for proposer in ordered for edits in proposer(scene))
    fresh = _fresh(scene.template.text, islice(proposals, PROPOSALS), seen)
    while batch := list(islice(fresh, MOST)):
        servers = variants(bench, scene.template, [edits for _, edits in batch])
        for number, (text, edits) in enumerate(batch):
            if number in servers:
                trial = bench.drive(text, servers[number], sample)
            else:
                trial = bench.trial(text, sample)
            if trial.server is None or trial.fault is not None:
                continue
            size = state.size + sum(edit.size + HARD * _is_hard(edit) for edit in edits)
            grown = _State(text, trial, size)
            if grown.score[:2] > state.score[:2] or _changes_nothing(state, grown):
                continue
            if bench.opens_alike(trial.server):
                yield grown


def _fresh(
    source: str, proposals: Iterable[tuple[Edit, ...]], seen: set[str]
) -> Iterator[tuple[str, tuple[Edit, ...]]]:
    """Edits with the text that they make of the source, if it has not been seen before."""
    for edits in proposals:
        try:
            text = apply(source, edits)
        except Overlap:
            continue
        if text not in seen:
            seen.add(text)
            yield text, edits


def _changes_nothing(before: _State, after: _State) -> bool:
    """Whether an edit has left everything that is still wrong exactly as it was."""
    return [f.comparison.after.prompt for f in before.trial.failures] == [
        f.comparison.after.prompt for f in after.trial.failures
    ]


def _is_hard(edit: Edit) -> bool:
    return edit.text in ("true", "false")


def _sample(failures: Sequence[Failure]) -> tuple[Plan, ...]:
    """A few plans that show every kind of failure."""
    kinds: dict[tuple[str, str, str, str], Plan] = {}
    for failure in failures:
        plan = failure.run.plan
        kinds.setdefault((failure.code, repr(plan.kwargs), plan.replay, plan.scenario.name), plan)
    chosen: list[Plan] = []
    for index in range(4):
        groups: dict[tuple[str, str], list[Plan]] = {}
        for (code, kwargs, _, _), plan in kinds.items():
            groups.setdefault((code, kwargs), []).append(plan)
        for group in groups.values():
            if index < len(group) and group[index] not in chosen:
                chosen.append(group[index])
    return tuple(chosen[: SAMPLE * 2])
