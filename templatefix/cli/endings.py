"""The exit code of a check."""

from __future__ import annotations

from collections.abc import Sequence

from templatefix.findings.finding import SEVERITIES
from templatefix.findings.outcome import Report
from templatefix.report.edition import READ_BUT_BROKEN

CLEAN, FOUND, UNUSABLE = 0, 1, 2


def unusable(report: Report) -> bool:
    """Whether the target could not be obtained or decoded."""
    return report.fault is not None and report.fault.code not in READ_BUT_BROKEN


def evaluated(reports: Sequence[Report]) -> bool:
    """Whether anything at all came to a verdict."""
    return any(
        report.verdict in ("preserving", "breaks")
        or (report.recorded is not None and report.recorded.continued > 0)
        for report in reports
    )


def exit_code(reports: Sequence[tuple[Report, str]], *, strict_coverage: bool = False) -> int:
    """``reports`` come with the severity that fails them, or ``never``."""
    if any(unusable(report) for report, _ in reports):
        return UNUSABLE
    if any(_fails(report, threshold) for report, threshold in reports):
        return FOUND
    if strict_coverage and not evaluated([report for report, _ in reports]):
        return FOUND
    return CLEAN


def _fails(report: Report, threshold: str) -> bool:
    if threshold == "never":
        return False
    least = SEVERITIES.index(threshold)
    return report.fault is not None or any(
        SEVERITIES.index(finding.severity) >= least for finding in report.findings
    )
