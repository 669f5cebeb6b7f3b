"""Many templates repaired, on all cores; nothing is written.

Each template is one job. What comes back is in the order of the templates, however many workers
there are. Workers are started afresh rather than forked: a tokenizer's threads would not survive a
fork, and a progress line's timer should not be inherited.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import active_children, get_context

from templatefix.checking.outcome import sha256
from templatefix.errors import TargetError
from templatefix.findings.survey import Outcome, Surveyed
from templatefix.patching.repair import Patched, PatchOptions, Status, repair
from templatefix.render import SyntaxFault
from templatefix.source import ChatTemplate
from templatefix.syntax import Unparsable, looks_like_chat, parse, reads_messages

#: A template, or why a target has none.
Found = ChatTemplate | TargetError

_OUTCOMES: dict[Status, Outcome] = {
    "unchanged": "preserves",
    "patched": "repaired",
    "failed": "not-repaired",
}
_NO_CANDIDATE = "no rung has a candidate for what breaks"


def survey(
    found: Sequence[Found], options: PatchOptions, jobs: int
) -> Generator[Surveyed, None, None]:
    """One value for each template, as soon as it and all before it are done."""
    if jobs == 1 or len(found) < 2:
        yield from (survey_one(each, options) for each in found)
        return
    pool = ProcessPoolExecutor(
        min(jobs, len(found)), mp_context=get_context("spawn"), initializer=_begin
    )
    try:
        yield from pool.map(partial(survey_one, options=options), found)
    except BrokenProcessPool:
        raise TargetError(
            "survey", "a worker was killed, perhaps for want of memory", "use --jobs 1"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        # Only a survey that was left early still has workers at work.
        for worker in active_children():
            worker.terminate()


def _begin() -> None:
    """Leave interrupts to the parent, and the other cores to the other workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def survey_one(found: Found, options: PatchOptions) -> Surveyed:
    """Repair one template, and say what came of it."""
    begun = time.monotonic()
    if isinstance(found, TargetError):
        return Surveyed(found.target, found.target, None, None, "unusable", why=_words(found))
    try:
        template = parse(found.text)
        if not reads_messages(template) or not looks_like_chat(template):
            return _without(found, "skipped", "not a chat template", begun)
        return _outcome(repair(found, options), begun)
    except (Unparsable, SyntaxFault) as fault:
        line = f"line {fault.line}: " if fault.line else ""
        return _without(found, "unusable", f"{line}{fault.message}", begun)
    except TargetError as error:
        return _without(found, "unusable", _words(error), begun)


def _words(error: TargetError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _without(template: ChatTemplate, outcome: Outcome, why: str, begun: float) -> Surveyed:
    return Surveyed(
        template.target,
        template.display,
        template.name,
        sha256(template.text),
        outcome,
        why=why,
        seconds=time.monotonic() - begun,
    )


def _outcome(patched: Patched, begun: float) -> Surveyed:
    template = patched.template
    clause, why = _reason(patched)
    return Surveyed(
        template.target,
        template.display,
        template.name,
        sha256(template.text),
        _OUTCOMES[patched.status],
        template.tokenizer.source if template.tokenizer else None,
        patched.broken,
        patched.excluded,
        patched.candidate.rung if patched.candidate else None,
        clause,
        why,
        time.monotonic() - begun,
    )


def _reason(patched: Patched) -> tuple[str | None, str | None]:
    """The clause and the words of the last candidate that was refused, where none was good."""
    if patched.status != "failed":
        return None, None
    if not patched.attempts:
        return None, _NO_CANDIDATE
    last = patched.attempts[-1]
    return last.violation.clause, f"rung {last.rung}: {last.violation.message}"
