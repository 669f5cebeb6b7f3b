"""The climb: rung after rung, until a candidate keeps the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, Turn
from templatefix.chat.given import scenario_of
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Tools
from templatefix.checking.limited import CODE, HINT, too_much, words
from templatefix.checking.options import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import Subject, prepare
from templatefix.dialect.author import Unspoken
from templatefix.errors import TargetError
from templatefix.limits import overruns
from templatefix.patching.bench import Bench, Trial
from templatefix.patching.candidate import Candidate
from templatefix.patching.contract import ClauseResult, Proof, Violation, c2, c6, verify
from templatefix.patching.contract.exam import Exam
from templatefix.patching.contract.search import smaller
from templatefix.patching.fixes import Mended, Mending, mend
from templatefix.patching.fixes.ground import survey
from templatefix.patching.header import changed_lines, with_header
from templatefix.patching.ladder import climb, fold, kwarg, rebuild
from templatefix.patching.ladder.rebuild_place import Unbuildable
from templatefix.render import Crashed, OverLimit, Refused, SyntaxFault
from templatefix.replay.run import Plan
from templatefix.source.template import ChatTemplate, sha256
from templatefix.syntax import parse

Status = Literal["unchanged", "patched", "failed"]

#: Candidates of a rung that are held to the contract, and how often a rung starts again with a
#: conversation that the search came upon.
CANDIDATES, RESTARTS = 3, 4

#: Candidates that merely cost too much are passed over, up to this many.
COSTLY = 12

Rung = Callable[[Bench], Iterator[Candidate]]

LADDER: tuple[tuple[int, Rung], ...] = (
    (1, kwarg.candidates),
    (2, climb.pinned),
    (3, climb.edited),
    (4, rebuild.candidates),
    (5, fold.candidates),
)


@dataclass(frozen=True)
class PatchOptions:
    """What a patch is asked for; see the command line for each.

    ``afterwards`` is the check that the outcome is shown to, if not a plain one. ``fix`` are codes
    of TF2xx that are to be repaired as well.
    """

    policy: str = "lossless"
    kwargs: Mapping[str, Any] | None = None
    block_size: int = 16
    max_examples: int = 60
    seed: int = 0
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    afterwards: CheckOptions | None = None
    fix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """A candidate that was refused: its rung (None for the original) and the clause it broke."""

    rung: int | None
    violation: Violation
    text: str = ""


@dataclass(frozen=True)
class PassedOver:
    """A rung that had no candidate, and what stood in the way."""

    rung: int
    why: str


@dataclass(frozen=True)
class Patched:
    """What came of a repair.

    ``text`` is the template to write: the original's own when ``status`` is ``unchanged``, None
    when it is ``failed``. ``excluded`` counts the core comparisons that still break because the
    policy leaves them alone, ``broken`` those that broke before within its scope. ``failing`` is
    what the last attempt of a failed repair came to grief over, by a small conversation. ``fixes``
    are what came of the codes that were to be fixed: what breaks is counted with them made.
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
    passed_over: tuple[PassedOver, ...] = ()
    failing: Attempt | None = None
    fixes: tuple[Mending, ...] = ()


def repair(template: ChatTemplate, options: PatchOptions) -> Patched:
    """Climb the ladder for one template.

    Raises ``Unparsable``, ``SyntaxFault`` or ``TargetError`` where it cannot be checked, or takes
    more than it may.
    """
    try:
        return _repair(template, options)
    except OverLimit as over:  # on the way to a candidate, or all steps together
        raise too_much(template, over) from None


def _repair(template: ChatTemplate, options: PatchOptions) -> Patched:
    asked = CheckOptions(
        block_size=options.block_size,
        kwargs=options.kwargs,
        reasoning_parser=options.reasoning_parser,
        tool_call_parser=options.tool_call_parser,
    )
    mended = Mended(template.text, ())
    if options.fix:
        mended = mend(template, options.fix, options.afterwards or asked)
    subject = prepare(replace(template, text=mended.text), asked)
    bench = Bench(subject, modes_of(subject, asked), options.policy, options.block_size)
    if mended.failed:
        return _outcome(template, options, "failed", mended)
    broken = len(bench.original.failures)
    over = overruns()
    if over:  # what cannot be rendered cannot be proven
        raise TargetError(template.display, words(over[0]), HINT, CODE)
    if not bench.original.runs:
        what = "no conversation could be evaluated, so that nothing can be said of it"
        raise TargetError(template.display, what, "templatefix check says what stands in the way")
    attempts: list[Attempt] = []
    passed: list[PassedOver] = []
    found: tuple[Candidate, Proof | None] | None
    if not broken and mended.changed:
        found = Candidate(subject.parsed.text, 0, ()), None
    elif not broken:
        excluded = _excluded(bench, bench.original)
        unchanged = _outcome(template, options, "unchanged", mended)
        return replace(unchanged, text=template.text, excluded=excluded)
    else:
        found = _climb(bench, options, asked, attempts, passed)
    if found is None:
        failed = _outcome(template, options, "failed", mended)
        return replace(
            failed,
            broken=broken,
            excluded=_excluded(bench, bench.original),
            attempts=tuple(attempts),
            passed_over=tuple(passed),
            failing=_failing(bench, attempts),
        )
    candidate, proof = found
    before = parse(template.text).text
    candidate = _noted(candidate, mended, before)
    return replace(
        _outcome(template, options, "patched", mended),
        text=with_header(candidate, before, sha256(template.text), options.policy),
        candidate=candidate,
        proof=proof,
        broken=broken,
        excluded=_excluded(bench, bench.trial(candidate.text)),
        attempts=tuple(attempts),
        passed_over=tuple(passed),
    )


def _outcome(
    template: ChatTemplate, options: PatchOptions, status: Status, mended: Mended
) -> Patched:
    return Patched(template, options.policy, status, None, None, None, 0, 0, fixes=mended.mendings)


def _climb(
    bench: Bench,
    options: PatchOptions,
    asked: CheckOptions,
    attempts: list[Attempt],
    passed: list[PassedOver],
) -> tuple[Candidate, Proof] | None:
    for number, rung in LADDER:
        try:
            found = _first_that_holds(bench, rung, options, asked, attempts)
        except Unbuildable as unbuildable:
            passed.append(PassedOver(number, str(unbuildable)))
            continue
        if found is not None:
            return found
    return None


def _noted(candidate: Candidate, mended: Mended, original: str) -> Candidate:
    """The candidate with notes on what was fixed, and on every line that differs now."""
    fixed = tuple(f"{each.code}: {words}" for each in mended.mendings for words in each.words)
    notes = candidate.notes
    if candidate.rung < 5 and (fixed or not notes):
        notes = (*notes, *changed_lines(original, candidate.text))
    # A server's flags would not bring what was fixed.
    kwargs = () if fixed else candidate.kwargs
    return replace(candidate, notes=(*fixed, *notes), kwargs=kwargs)


def _failing(bench: Bench, attempts: list[Attempt]) -> Attempt:
    """The last attempt, or the original where there was none, by a small conversation."""
    last = attempts[-1] if attempts else None
    if last is None:
        text = bench.subject.parsed.text
        exam = Exam(bench, text, bench.subject.server)
        violation = c2.check(exam).violation
        assert violation is not None  # or nothing would have been broken
        last = Attempt(None, violation, text)
    else:
        try:
            exam = Exam(bench, last.text, bench.server(last.text))
        except SyntaxFault:
            return last
    if last.violation.conversation is None:
        return last
    plan = _run_of(bench, last.violation.conversation)
    scenario = replace(plan.scenario, name="conversation")
    return replace(last, violation=smaller(exam, scenario, plan.kwargs, last.violation))


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
        judged = 0
        for candidate in islice(rung(bench), COSTLY):
            proof = _prove(bench, candidate, options, asked)
            if proof.passed:
                return candidate, proof
            violation = proof.violations[0]
            judged += violation.clause != "C7"
            attempts.append(Attempt(candidate.rung, violation, candidate.text))
            plan = _plan_of(bench, violation)
            if plan is not None and plan not in bench.found:
                bench = replace(bench, found=(*bench.found, plan))
                break
            if judged >= CANDIDATES:
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
    if options.fix:
        shown = survey(subject.template, options.afterwards or asked).findings
        for finding in shown:
            if finding.code in options.fix:
                again = Violation("C6", f"it shows {finding.code} again: {finding.message}")
                return proof.including(ClauseResult("C6", False, 1, again))
    return proof.including(
        c6(Bench(subject, modes_of(subject, asked), options.policy, options.block_size))
    )


def _subject(original: Subject, text: str, asked: CheckOptions) -> Subject:
    return prepare(replace(original.template, text=text), asked)


def _plan_of(bench: Bench, violation: Violation) -> Plan | None:
    """The run that shows a broken C2, for the bench: with what was meant, where that is found."""
    if violation.clause != "C2" or violation.conversation is None:
        return None
    return _run_of(bench, violation.conversation)


def _run_of(bench: Bench, conversation: Mapping[str, Any]) -> Plan:
    """The run of a conversation, in the form that ``--conversation`` takes."""
    scenario = scenario_of(conversation)
    kwargs = conversation.get("chat_template_kwargs") or {}
    messages: list[Message] = []
    turns = []
    for turn in scenario.turns:
        messages += turn.new_messages
        turns.append(_meant(bench, turn, messages, scenario.tools, kwargs))
        if turn.replayed is not None:
            messages.append(turn.replayed)
    found = replace(scenario, name="found", turns=tuple(turns), reasoning="if-thinking")
    return Plan(found, kwargs)


def _meant(
    bench: Bench, turn: Turn, messages: list[Message], tools: Tools, kwargs: Mapping[str, Any]
) -> Turn:
    """The turn by what the model meant instead of by what it wrote.

    The fields of the answer carry newlines that the layout of the completion brought; they are
    taken off until the layout brings exactly the completion that was given.
    """
    answer = turn.answer
    if answer is None or turn.completion is None:
        return turn
    for reasoning in _trimmed(answer.reasoning):
        for content in _trimmed(answer.content):
            meant = Answer(reasoning, content, answer.tool_calls)
            try:
                written = bench.subject.author.completion(messages, tools, kwargs, meant).written
            except (Unspoken, Unpresentable, Refused, Crashed):
                continue
            if written is not None and written.text == turn.completion:
                return Turn(turn.new_messages, meant, kwargs=turn.kwargs)
    return turn


def _trimmed(field: str | None) -> list[str | None]:
    """A field with up to three newlines off its front, and up to one off its end."""
    if not field:
        return [field]
    fronts = [field[i:] for i in range(4) if field.startswith("\n" * i)]
    ends = [front[:-1] for front in fronts if front.endswith("\n")]
    return [*fronts, *ends]


def _excluded(bench: Bench, trial: Trial) -> int:
    """How many core comparisons break outside the policy's scope."""
    if bench.policy != "lossless" or trial.server is None:
        return 0
    wider = replace(bench, policy="keep-reasoning")
    return len(wider.drive(trial.text, trial.server, wider.spoken).failures) - len(trial.failures)
