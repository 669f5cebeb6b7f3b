"""The report of a check, and the verdict over its core runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from templatefix.checking.notes import Notes
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject
from templatefix.findings.finding import Finding, Location
from templatefix.findings.outcome import Coverage, Fault, NotEvaluated, Report, Verdict
from templatefix.findings.run_outcome import RunOutcome, TurnRow
from templatefix.render import SyntaxFault
from templatefix.replay.accounting import history_tokens, recomputed_tokens
from templatefix.replay.run import Run
from templatefix.rules import RULES
from templatefix.source.template import ChatTemplate, sha256
from templatefix.syntax import (
    Unparsable,
)


def report(
    subject: Subject,
    options: CheckOptions,
    policy: str,
    notes: Notes,
    findings: list[Finding],
) -> Report:
    template, encoder = subject.template, subject.encoder
    runs = notes.runs
    outcomes = tuple(
        run_outcome(
            run,
            options.block_size,
            full=options.full,
            left_out=run.plan.id in notes.left_out,
        )
        for run in runs
    )
    core = [run for run in runs if run.plan.core]
    if any(run.preserving is False for run in core):
        verdict: Verdict = "breaks"
    elif any(run.preserving for run in core):
        verdict = "preserving"
    else:
        verdict = "not-evaluated"
    coverage = Coverage(
        tuple(_unique(run.plan.kwargs for run in runs)),
        tuple(dict.fromkeys(run.plan.scenario.name for run in runs)),
        tuple(dict.fromkeys(run.plan.client for run in runs)),
        tuple(_grouped(notes.not_evaluated)),
    )
    order = {"error": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda finding: (order[finding.severity], finding.code))
    parsers = subject.author.parsers
    return Report(
        template.target,
        template.display,
        template.name,
        sha256(template.text) if template.text else None,
        encoder.source,
        encoder.approximate,
        options.block_size,
        policy,
        verdict,
        coverage=coverage,
        runs=outcomes,
        findings=tuple(findings),
        source=template.text or None,
        attention=template.attention,
        renderer=subject.server.name,
        parsers=(
            parsers.reasoning.name if parsers.reasoning else None,
            parsers.tool.name if parsers.tool else None,
        ),
    )


def run_outcome(run: Run, block_size: int, *, full: bool, left_out: bool = False) -> RunOutcome:
    """A run told in figures; one that preserves has those of its turns only if ``full``."""
    one = run.plan
    rows: tuple[TurnRow, ...] = ()
    if full or one.requested or run.preserving is not True:
        rows = tuple(_rows(run, block_size))
    return RunOutcome(
        one.id,
        one.core,
        one.kwargs,
        one.client,
        one.replay,
        one.scenario.name,
        run.preserving,
        run.lost_to,
        run.completion,
        rows,
        one.requested,
        left_out,
    )


def _rows(run: Run, block_size: int) -> Iterable[TurnRow]:
    for i, request in enumerate(run.requests):
        prompt, stream = len(request.prompt_ids), len(request.stream_ids)
        if i == 0:
            yield TurnRow(1, prompt, stream, None, None, None, None)
            continue
        one = run.comparisons[i - 1]
        before = one.before.stream_ids
        history = history_tokens(before, request.prompt_ids, one.reuse)
        yield TurnRow(
            i + 1,
            prompt,
            stream,
            len(before),
            one.reuse,
            one.hit,
            one.ideal,
            history,
            recomputed_tokens(history, one.hit, len(before), prompt, block_size),
        )


def unparsable(
    template: ChatTemplate, options: CheckOptions, policy: str, fault: Unparsable | SyntaxFault
) -> Report:
    rule = RULES[fault.code]
    message, line = fault.message, fault.line
    location = (Location("source", line, 1, line, 1),) if line else ()
    finding = Finding(
        rule.code,
        rule.name,
        rule.severity,
        "high",
        f"{rule.summary}: {message}",
        detail=message,
        locations=location,
    )
    return Report(
        template.target,
        template.display,
        template.name,
        sha256(template.text),
        template.tokenizer.source if template.tokenizer else None,
        template.tokenizer is None,
        options.block_size,
        policy,
        "error",
        Fault(fault.code, message, "mend the template"),
        findings=(finding,),
        source=template.text,
        attention=template.attention,
    )


def _unique(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _grouped(entries: Sequence[NotEvaluated]) -> list[NotEvaluated]:
    """Entries in the order of how often their reason is given, most frequent first."""
    counts = Counter(entry.why for entry in entries)
    return sorted(entries, key=lambda entry: -counts[entry.why])
