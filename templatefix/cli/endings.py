"""The exit code of a check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from templatefix.findings.finding import SEVERITIES
from templatefix.findings.outcome import Report
from templatefix.report.edition import READ_BUT_BROKEN

CLEAN, FOUND, UNUSABLE = 0, 1, 2


@dataclass(frozen=True)
class Ending:
    """What of a report decides the exit code.

    ``unusable``: the target could not be obtained or decoded. ``broken``: its template is at fault
    as a whole. ``gravest`` is the severity of its gravest finding. ``evaluated``: anything at all
    came to a verdict.
    """

    unusable: bool = False
    broken: bool = False
    gravest: str | None = None
    evaluated: bool = False

    def fails(self, threshold: str) -> bool:
        """Whether it fails a run; ``threshold`` is a severity, or ``never``."""
        if threshold == "never":
            return False
        if self.broken or self.gravest is None:
            return self.broken
        return SEVERITIES.index(self.gravest) >= SEVERITIES.index(threshold)


def ending(report: Report) -> Ending:
    """That of a report."""
    severities = [finding.severity for finding in report.findings]
    recorded = report.recorded is not None and report.recorded.continued > 0
    return Ending(
        unusable=report.fault is not None and report.fault.code not in READ_BUT_BROKEN,
        broken=report.fault is not None,
        gravest=max(severities, key=SEVERITIES.index, default=None),
        evaluated=report.verdict in ("preserving", "breaks") or recorded,
    )


def exit_code(endings: Iterable[tuple[Ending, str]], *, strict_coverage: bool = False) -> int:
    """``endings`` come with the severity that fails them, or ``never``."""
    each = list(endings)
    if any(one.unusable for one, _ in each):
        return UNUSABLE
    if any(one.fails(threshold) for one, threshold in each):
        return FOUND
    if strict_coverage and not any(one.evaluated for one, _ in each):
        return FOUND
    return CLEAN
