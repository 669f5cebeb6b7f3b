"""What a page shows of one report, made ready for its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report
from templatefix.findings.repair import RepairReport
from templatefix.report.coverage import ATTENTION, circumstances
from templatefix.report.edition import gravest_first, place
from templatefix.report.figure.layout import Drawing, drawings
from templatefix.report.figure.reuse import Figure, figure_of
from templatefix.report.json_report import to_json
from templatefix.report.kwargs import kwargs_text
from templatefix.report.page.cost import Cost, cost
from templatefix.report.page.diff import DiffLine, diff
from templatefix.report.page.source import SourceLine, frame
from templatefix.report.page.tokens import Alignment, alignment
from templatefix.report.patch_text import RUNGS
from templatefix.report.recorded_text import recorded_lines
from templatefix.report.text import told_circumstances, told_loss, under_policy
from templatefix.report.visible import head

#: What a page of less than a megabyte holds: findings in full; those that have all the room there
#: is, which are pairs of tokens, characters of a text and of a conversation.
_FINDINGS, _ROOMY = 40, 12
_PAIRS, _TEXT, _CONVERSATION = 160, 1500, 6000

_VERDICTS = {
    "preserving": ("✓", "preserving", "Every stream is continued by the next prompt."),
    "breaks": ("✗", "breaks", "The next prompt leaves the stream: cached tokens are lost."),
    "not-evaluated": ("?", "not evaluated", "No run came to a verdict."),
    "error": ("!", "error", "There is no verdict."),
}


def told_verdict(report: Report) -> tuple[str, str, str]:
    """A sign, the verdict in words, and what it means."""
    if report.keeps_to_its_policy:
        says = f"Nothing is lost but reasoning, which {report.policy} leaves out of history."
        return "✓", under_policy(report), says
    return _VERDICTS[report.verdict]


@dataclass(frozen=True)
class FindingView:
    finding: Finding
    circumstances: str
    message: str
    explanation: str
    loss: str
    lines: list[SourceLine]
    alignment: Alignment | None
    conversation: tuple[str, ...]


@dataclass(frozen=True)
class RepairView:
    repair: RepairReport
    headline: str
    diff: list[DiffLine]


@dataclass(frozen=True)
class TargetView:
    """``key`` begins the ids of elements: several reports may stand on one page."""

    key: str
    name: str
    report: Report
    sign: str
    verdict: str
    says: str
    circumstances: str
    attention: str | None
    figure: Figure
    drawings: list[Drawing]
    costs: list[Cost]
    findings: list[FindingView]
    more_findings: list[Finding]
    repairs: list[RepairView]
    not_evaluated: Mapping[str, list[str]]
    recorded: list[str]


def target_view(report: Report, key: str) -> TargetView:
    name = place(report)
    figure = figure_of(report, name)
    sign, verdict, says = told_verdict(report)
    if report.skipped is not None:
        sign, verdict, says = "–", "skipped", report.skipped
    findings = gravest_first(report.findings)
    share = min(1.0, _ROOMY / max(1, min(len(findings), _FINDINGS)))
    recorded, attention = report.recorded, None
    if report.attention is not None:
        note = ATTENTION.get(report.attention, "real hits may be shorter than those shown")
        attention = f"Hits are an upper bound: {note}."
    return TargetView(
        key,
        name,
        report,
        sign,
        verdict,
        says,
        circumstances(report),
        attention,
        figure,
        drawings(figure),
        [each for panel in figure.panels if (each := cost(panel)) is not None],
        [_finding(finding, report, share) for finding in findings[:_FINDINGS]],
        findings[_FINDINGS:],
        [_repair(each) for each in report.repairs],
        _reasons(report),
        [] if recorded is None else recorded_lines(recorded, report, 80, verbose=True),
    )


def _finding(finding: Finding, report: Report, share: float) -> FindingView:
    text = int(_TEXT * share)
    return FindingView(
        finding,
        told_circumstances(finding),
        head(finding.message, text),
        "" if finding.explanation == finding.message else head(finding.explanation, text),
        told_loss(finding, report),
        frame(report.source, finding.locations),
        None if finding.streams is None else alignment(finding.streams, int(_PAIRS * share)),
        tuple(_conversation(finding.conversation, int(_CONVERSATION * share))),
    )


def _conversation(conversation: Mapping[str, Any] | None, most: int) -> Iterator[str]:
    if conversation is None:
        return
    document = to_json(conversation)
    if len(document) > most:
        yield "too long to show: --output-format json has it"
    else:
        yield from document.splitlines()


def _repair(repair: RepairReport) -> RepairView:
    changed = diff(repair.source, repair.text) if repair.text is not None else []
    return RepairView(repair, headline(repair), changed)


def headline(repair: RepairReport) -> str:
    """What came of a repair, in a line."""
    if repair.status == "unchanged":
        return "nothing to repair under this policy"
    if repair.status == "failed":
        clause = f": the last attempt breaks {repair.failing.clause}" if repair.failing else ""
        return f"not repaired{clause}"
    if repair.flag_kwargs is not None:
        return f"a kwarg that the template has: {kwargs_text(repair.flag_kwargs)}"
    if repair.rung is None:
        return "fixed"
    return f"rung {repair.rung}: {RUNGS.get(repair.rung, 'edited')}"


def _reasons(report: Report) -> dict[str, list[str]]:
    """What was not evaluated, by the reason."""
    reasons: dict[str, list[str]] = {}
    for part in report.coverage.not_evaluated:
        reasons.setdefault(head(part.why, _TEXT), []).append(head(part.what, _TEXT))
    return reasons
