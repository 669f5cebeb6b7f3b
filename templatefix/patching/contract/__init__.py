"""The contract that every repair has to keep: one file for each clause.

C6 is judged on a bench of the candidate's own, by :func:`c6`; all others by :func:`verify`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from templatefix.patching.bench import Bench
from templatefix.patching.contract import c1, c2, c3, c4, c5, c7, c8
from templatefix.patching.contract.c6 import c6
from templatefix.patching.contract.exam import Exam
from templatefix.patching.contract.proof import ClauseResult, Proof, Violation
from templatefix.patching.contract.search import SEARCHED, search
from templatefix.render import SyntaxFault

__all__ = ["CLAUSES", "ClauseResult", "Proof", "Violation", "c6", "verify"]

#: The clauses and their checks, the cheapest first; C8 is for ``lossless`` alone.
CLAUSES: tuple[tuple[str, Callable[[Exam], ClauseResult]], ...] = (
    ("C1", c1.check),
    ("C2", c2.check),
    ("C4", c4.check),
    ("C3", c3.check),
    ("C5", c5.check),
    ("C8", c8.check),
    ("C7", c7.check),
)


def verify(
    bench: Bench,
    candidate_text: str,
    *,
    max_examples: int,
    seed: int,
    fold: bool = False,
    exhaustive: bool = False,
) -> Proof:
    """Hold a candidate to the contract, up to the first clause that it breaks.

    ``exhaustive`` goes on to the other clauses; the search, which comes last, is made only for a
    candidate that has kept all of them. ``fold`` lets it cost more than the original.
    """
    try:
        server = bench.served(candidate_text)
    except SyntaxFault as fault:
        violation = Violation("C4", f"the candidate does not compile: {fault.message}")
        return Proof((ClauseResult("C4", False, 1, violation),), seed, 0)
    exam = Exam(bench, candidate_text, server, fold)
    results: dict[str, ClauseResult] = {}
    for clause, check in CLAUSES:
        if clause == "C8" and bench.policy != "lossless":
            continue
        results[clause] = check(exam)
        if not results[clause].passed and not exhaustive:
            break
    examples = 0
    if max_examples > 0 and all(result.passed for result in results.values()):
        found, examples = search(exam, max_examples, seed)
        for clause in SEARCHED:
            if clause in results:
                known = results[clause]
                results[clause] = replace(known, tried=known.tried + examples)
        if found is not None:
            broken = replace(results[found.clause], passed=False, violation=found)
            results[found.clause] = broken
    return Proof(tuple(results[clause] for clause in sorted(results)), seed, examples)
