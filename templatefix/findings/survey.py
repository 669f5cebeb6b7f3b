"""What came of repairing many templates: one value for each, and the counts of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

#: ``preserves``: nothing breaks within the policy's scope; ``skipped``: not a chat template;
#: ``unusable``: it cannot be read or does not compile.
Outcome = Literal["preserves", "repaired", "not-repaired", "skipped", "unusable"]

OUTCOMES: tuple[Outcome, ...] = ("preserves", "repaired", "not-repaired", "skipped", "unusable")


@dataclass(frozen=True)
class Surveyed:
    """One template. ``broken`` counts the core comparisons that lost tokens before.

    ``rung`` is that of the repair. ``clause`` and ``why`` tell why there is none: the clause of
    the contract that the last candidate broke (None where no rung had a candidate) and how; for
    a template that was skipped or is unusable, ``why`` is the reason. ``excluded`` counts the core
    comparisons that the policy leaves as they are. ``seconds`` is what it took, on the wall.
    """

    target: str
    display: str
    template_name: str | None
    sha256: str | None
    outcome: Outcome
    tokenizer_source: str | None = None
    broken: int = 0
    excluded: int = 0
    rung: int | None = None
    clause: str | None = None
    why: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Tally:
    """How many templates came to what."""

    outcomes: dict[str, int]
    rungs: dict[int, int]
    clauses: dict[str, int]

    @property
    def templates(self) -> int:
        return sum(self.outcomes.values())

    @property
    def breaking(self) -> int:
        """Templates that break within the policy's scope."""
        return self.outcomes["repaired"] + self.outcomes["not-repaired"]


def tally(surveyed: Iterable[Surveyed]) -> Tally:
    """The counts; those of outcomes are all there, those of rungs and clauses as they occur."""
    outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
    rungs: Counter[int] = Counter()
    clauses: Counter[str] = Counter()
    for each in surveyed:
        outcomes[each.outcome] += 1
        if each.rung is not None:
            rungs[each.rung] += 1
        if each.outcome == "not-repaired":
            clauses[each.clause or "no candidate"] += 1
    return Tally(dict(outcomes), dict(sorted(rungs.items())), dict(sorted(clauses.items())))
