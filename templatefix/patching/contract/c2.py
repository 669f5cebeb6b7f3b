"""C2: every stream without its last token is a prefix of the next prompt, token for token."""

from __future__ import annotations

from templatefix.patching.bench import Failure
from templatefix.patching.contract.exam import Exam, Walk, replayed
from templatefix.patching.contract.proof import ClauseResult, Violation
from templatefix.replay.run import Run


def check(exam: Exam) -> ClauseResult:
    """The core runs of the faithful client, in the policy's scope."""
    trial = exam.trial
    tried = len(trial.runs)
    if not trial.failures:
        return ClauseResult("C2", True, tried)
    failure = trial.failures[0]
    conversation = replayed(failure.run, failure.comparison.turn)
    return ClauseResult("C2", False, tried, Violation("C2", _words(failure), conversation))


def judge(exam: Exam, walk: Walk) -> str | None:
    """The same for a generated conversation, if the server's parsers understand its answers."""
    if walk.plan.client != "faithful":
        return None
    # A text that ends in the middle of a token's text is no fault of the template.
    failures = [failure for failure in walk.failures if failure.code != "TF108"]
    return _words(failures[0]) if failures and _understood(exam, walk.before) else None


def _words(failure: Failure) -> str:
    comparison = failure.comparison
    kept, held = comparison.reuse, len(comparison.before.stream_ids)
    at = comparison.characters
    stream = comparison.before.stream[at : at + 40]
    prompt = comparison.after.prompt[at : at + 40]
    return (
        f"{failure.code} in {failure.run.plan.id}: request {comparison.turn} keeps {kept} of "
        f"{held} tokens; the server holds {stream!r} where the prompt has {prompt!r}"
    )


def _understood(exam: Exam, run: Run) -> bool:
    """Whether the server's parsers find in every completion what it meant."""
    parsers = exam.bench.subject.author.parsers
    for request in run.requests:
        completion = request.completion
        if completion is None or completion.written is None or request.answer is None:
            continue
        text = completion.written.said
        if not parsers.understand(
            text,
            request.answer,
            state=completion.state,
            kwargs=request.kwargs,
            tools=run.tools,
        ):
            return False
    return True
