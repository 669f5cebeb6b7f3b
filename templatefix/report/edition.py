"""What a report was made with: what must be equal for two reports to be comparable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from templatefix.findings.finding import SEVERITIES, Finding
from templatefix.findings.outcome import Report


@dataclass(frozen=True)
class Edition:
    """``presentation`` names the server whose preparation of messages is reproduced, ``clock``
    is where the templates' clock stood (ISO 8601)."""

    tool_version: str
    presentation: str
    renderer: str
    clock: str


#: The names of the codes under which a target gets no verdict.
FAULTS = {"TF601": "resource-limit", "TF901": "unreadable", "TF902": "syntax-error"}

#: Those of a template that was read, and that is at fault itself: a result as any finding is.
READ_BUT_BROKEN = frozenset({"TF601", "TF902"})


def gravest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by severity; those of the same severity stay in their order."""
    return sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))


def place(report: Report) -> str:
    """The file of a report, with the name of the template where the file holds several."""
    name = report.template_name
    return report.display if name is None else f"{report.display}[{name}]"


def short_place(report: Report) -> str:
    """The same by no more than the file and its folder."""
    return "/".join(place(report).replace("\\", "/").split("/")[-2:])


def in_its_own_file(report: Report) -> bool:
    """Whether line numbers of the template are line numbers of the file that is shown."""
    return not report.display.lower().endswith((".json", ".gguf"))
