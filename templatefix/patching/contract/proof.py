"""What is known of a candidate after it was held to the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Violation:
    """A clause that a candidate breaks, and a conversation that shows it.

    ``conversation`` has the form that ``--conversation`` takes, and is as small as the search
    could make it where the search found it. It is None where no conversation has that form: the
    message spells the input out then.
    """

    clause: str
    message: str
    conversation: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ClauseResult:
    """One clause judged. ``tried`` counts the inputs it was judged on."""

    clause: str
    passed: bool
    tried: int
    violation: Violation | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """The clauses judged, in their order.

    ``examples`` is how many generated conversations were tried, from ``seed``. Where a clause is
    broken, the clauses that come after it in cost may be missing.
    """

    results: tuple[ClauseResult, ...]
    seed: int
    examples: int

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)

    @property
    def violations(self) -> tuple[Violation, ...]:
        return tuple(r.violation for r in self.results if r.violation is not None)

    def including(self, result: ClauseResult) -> Proof:
        """The proof with one more clause, which was judged elsewhere."""
        results = sorted((*self.results, result), key=lambda each: each.clause)
        return replace(self, results=tuple(results))
