"""One template repaired, to see what comes of it; nothing is written."""

from __future__ import annotations

import time
from dataclasses import replace

from templatefix.checking.limited import CODE
from templatefix.errors import TargetError
from templatefix.findings.survey import Outcome, Surveyed
from templatefix.patching.repair import Patched, PatchOptions, Status, repair
from templatefix.render import SyntaxFault
from templatefix.source import ChatTemplate
from templatefix.source.template import sha256
from templatefix.syntax import Unparsable, located, looks_like_chat, parse, reads_messages

#: A template, or why a target has none.
Found = ChatTemplate | TargetError

_OUTCOMES: dict[Status, Outcome] = {
    "unchanged": "preserves",
    "patched": "repaired",
    "failed": "not-repaired",
}
_NO_CANDIDATE = "no rung has a candidate for what breaks"


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
        if fault.code == CODE:
            return _over_limit(found, fault.message, begun)
        return _without(found, "unusable", located(fault.message, fault.line), begun)
    except TargetError as error:
        if error.code == CODE:
            return _over_limit(found, error.message, begun)
        return _without(found, "unusable", _words(error), begun)


def _words(error: TargetError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _over_limit(template: ChatTemplate, why: str, begun: float) -> Surveyed:
    """What takes more than it may is the template's own fault, as a break is."""
    return replace(_without(template, "not-repaired", why, begun), clause=CODE)


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
        passed = [f"; rung {each.rung}: {each.why}" for each in patched.passed_over]
        return None, "".join([_NO_CANDIDATE, *passed])
    last = patched.attempts[-1]
    return last.violation.clause, f"rung {last.rung}: {last.violation.message}"
