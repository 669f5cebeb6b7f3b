"""The climb: rung after rung, until a candidate keeps the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from templatefix.chat.given import scenario_of
from templatefix.check.options import CheckOptions
from templatefix.check.outcome import sha256
from templatefix.check.runs import modes_of
from templatefix.check.subject import Subject, prepare
from templatefix.patch.bench import Bench, Trial
from templatefix.patch.candidate import Candidate
from templatefix.patch.contract import Proof, Violation, c6, verify
from templatefix.patch.header import with_header
from templatefix.patch.ladder import climb, fold, kwarg
from templatefix.replay.run import Plan
from templatefix.source.template import ChatTemplate

Status = Literal["unchanged", "patched", "failed"]

#: Candidates of a rung that are held to the contract, and how often a rung starts again with a
#: conversation that the search came upon.
CANDIDATES, RESTARTS = 3, 4

Rung = Callable[[Bench], Iterator[Candidate]]

LADDER: tuple[tuple[int, Rung], ...] = (
    (1, kwarg.candidates),
    (2, climb.pinned),
    (3, climb.edited),
    (5, fold.candidates),
)


@dataclass(frozen=True)
class PatchOptions:
    """What a patch is asked for; see the command line for each."""

    policy: str = "lossless"
    kwargs: Mapping[str, Any] | None = None
    block_size: int = 16
    max_examples: int = 60
    seed: int = 0
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None


@dataclass(frozen=True)
class Attempt:
    """A candidate that was refused: its rung and the clause that it broke."""

    rung: int
    violation: Violation


@dataclass(frozen=True)
class Patched:
    """What came of a repair.

    ``text`` is the template to write: the original's own when ``status`` is ``unchanged``, None
    when it is ``failed``. ``excluded`` counts the core comparisons that still break because the
    policy leaves them alone, ``broken`` those that broke before within its scope.
    """

    template: ChatTemplate
    policy: str
    status: Status
    text: str | None
    candidate: Candidate | None
    proof: Proof | None
    broken: int
    excluded: int
    attempts: tuple[Attempt, ...] = ()


def repair(template: ChatTemplate, options: PatchOptions) -> Patched:
    """Climb the ladder for one template.

    Raises ``Unparsable``, ``SyntaxFault`` or ``TargetError`` where it cannot be checked.
    """
    asked = CheckOptions(
        block_size=options.block_size,
        kwargs=options.kwargs,
        reasoning_parser=options.reasoning_parser,
        tool_call_parser=options.tool_call_parser,
    )
    subject = prepare(template, asked)
    bench = Bench(subject, modes_of(subject, asked), options.policy, options.block_size)
    broken = len(bench.original.failures)
    if not broken:
        excluded = _excluded(bench, bench.original)
        return Patched(
            template, options.policy, "unchanged", template.text, None, None, 0, excluded
        )
    attempts: list[Attempt] = []
    for _, rung in LADDER:
        found = _first_that_holds(bench, rung, options, asked, attempts)
        if found is not None:
            candidate, proof = found
            text = with_header(candidate, sha256(template.text), options.policy)
            excluded = _excluded(bench, bench.trial(candidate.text))
            return Patched(
                template,
                options.policy,
                "patched",
                text,
                candidate,
                proof,
                broken,
                excluded,
                tuple(attempts),
            )
    excluded = _excluded(bench, bench.original)
    return Patched(
        template,
        options.policy,
        "failed",
        None,
        None,
        None,
        broken,
        excluded,
        tuple(attempts),
    )


def _first_that_holds(
    bench: Bench,
    rung: Rung,
    options: PatchOptions,
    asked: CheckOptions,
    attempts: list[Attempt],
) -> tuple[Candidate, Proof] | None:
    """The first candidate of a rung that keeps the contract, and the proof of it.

    A conversation that breaks a candidate joins the bench, and the rung is climbed again.
    """
    for _ in range(RESTARTS):
        known = len(bench.found)
        for candidate in islice(rung(bench), CANDIDATES):
            proof = _prove(bench, candidate, options, asked)
            if proof.passed:
                return candidate, proof
            violation = proof.violations[0]
            attempts.append(Attempt(candidate.rung, violation))
            plan = _plan_of(violation)
            if plan is not None and plan not in bench.found:
                bench = replace(bench, found=(*bench.found, plan))
                break
        if len(bench.found) == known:
            return None
    return None


def _prove(bench: Bench, candidate: Candidate, options: PatchOptions, asked: CheckOptions) -> Proof:
    proof = verify(
        bench,
        candidate.text,
        max_examples=options.max_examples,
        seed=options.seed,
        fold=candidate.rung == 5,
    )
    if not proof.passed:
        return proof
    subject = _subject(bench.subject, candidate.text, asked)
    return proof.including(
        c6(Bench(subject, modes_of(subject, asked), options.policy, options.block_size))
    )


def _subject(original: Subject, text: str, asked: CheckOptions) -> Subject:
    return prepare(replace(original.template, text=text), asked)


def _plan_of(violation: Violation) -> Plan | None:
    """The run that shows a broken C2, for the bench."""
    if violation.clause != "C2" or violation.conversation is None:
        return None
    conversation = violation.conversation
    scenario = replace(scenario_of(conversation), name="found")
    return Plan(scenario, conversation.get("chat_template_kwargs") or {})


def _excluded(bench: Bench, trial: Trial) -> int:
    """How many core comparisons break outside the policy's scope."""
    if bench.policy != "lossless" or trial.server is None:
        return 0
    wider = replace(bench, policy="keep-reasoning")
    return len(wider.drive(trial.text, trial.server, wider.spoken).failures) - len(trial.failures)
