"""The static analysis as part of a check: hazards become findings by their rules."""

from __future__ import annotations

from collections.abc import Sequence

from templatefix.checking.notes import Notes
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject
from templatefix.findings.finding import Finding
from templatefix.findings.hazard import Battery, Hazard
from templatefix.findings.hazards import hazards, left_out, undeclared, unsafe
from templatefix.rules import RULES
from templatefix.syntax import named_kwargs
from templatefix.syntax.names import REQUEST_NAMES


def of_tree(
    subject: Subject, options: CheckOptions, notes: Notes, found: Sequence[Finding]
) -> list[Finding]:
    """TF401 to TF408 and TF602, but for what ``found`` confirms already."""
    why = left_out(subject.parsed)
    if why:
        notes.skip("the static analysis", why)
    given = dict(options.kwargs or {})
    if options.conversation is not None:
        given = {**(options.conversation.get("chat_template_kwargs") or {}), **given}
    known = named_kwargs(subject.parsed) | REQUEST_NAMES
    if not subject.template.text:
        given = {}  # what a server without a template reads, no tree tells
    return [
        _finding(hazard)
        for hazard in (
            *hazards(subject.parsed, found, _battery(notes)),
            *undeclared(subject.parsed, given, known),
            *unsafe(subject.parsed),
        )
    ]


def _battery(notes: Notes) -> Battery:
    outcomes = {run.preserving for run in notes.runs if run.plan.core}
    return "broken" if False in outcomes else "clean" if True in outcomes else "not-run"


def _finding(hazard: Hazard) -> Finding:
    rule = RULES[hazard.code]
    return Finding(
        hazard.code,
        rule.name,
        hazard.severity,
        hazard.confidence,
        hazard.message,
        detail=hazard.detail,
        locations=hazard.locations,
        fix=hazard.fix,
    )
