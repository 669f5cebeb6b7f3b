"""C6: a patched template is left alone: it preserves in the scope of its policy."""

from __future__ import annotations

from templatefix.patching.bench import Bench
from templatefix.patching.contract.exam import replayed
from templatefix.patching.contract.proof import ClauseResult, Violation


def c6(bench: Bench) -> ClauseResult:
    """Judge the bench that was made from a candidate and the policy of its patch.

    Its completions are what the model would write under the candidate itself.
    """
    trial = bench.original
    tried = len(trial.runs)
    if not trial.failures:
        return ClauseResult("C6", True, tried)
    failure = trial.failures[0]
    message = (
        f"patching it once more would find {failure.code} in {failure.run.plan.id}, "
        f"request {failure.comparison.turn}"
    )
    conversation = replayed(failure.run, failure.comparison.turn)
    return ClauseResult("C6", False, tried, Violation("C6", message, conversation))
