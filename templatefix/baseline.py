"""Baselines: findings that a project has accepted, so that only new ones are reported.

A finding is known by its file, its template's name, its code and a fingerprint that no line
number enters: it stays known when lines move.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from templatefix.errors import TargetError
from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Hidden, Report
from templatefix.source.links import followed, seen_from

VERSION = 1


class Accepted(NamedTuple):
    """One accepted finding. ``file`` is relative to the folder of the baseline."""

    file: str
    template_name: str
    code: str
    fingerprint: str


def accept(reports: Iterable[Report], file: Path) -> frozenset[Accepted]:
    """Everything that the reports find, for a baseline that will stand at ``file``."""
    return frozenset(
        _accepted(report, finding, file) for report in reports for finding in report.findings
    )


def hide(report: Report, accepted: frozenset[Accepted], file: Path) -> Report:
    """The report without the accepted findings: they move to ``hidden``."""
    known = [each for each in report.findings if _accepted(report, each, file) in accepted]
    if not known:
        return report
    return replace(
        report,
        findings=tuple(each for each in report.findings if each not in known),
        hidden=report.hidden + tuple(Hidden(each, "baseline") for each in known),
    )


def baseline_text(accepted: frozenset[Accepted]) -> str:
    """The baseline as JSON, sorted, so that version control shows what changed."""
    findings = [each._asdict() for each in sorted(accepted)]
    return json.dumps({"version": VERSION, "findings": findings}, indent=2) + "\n"


def read_baseline(file: Path) -> frozenset[Accepted]:
    """Raises TargetError for a file that is absent or no baseline."""
    try:
        document = json.loads(file.read_bytes())
        if document["version"] != VERSION:
            raise TargetError(
                str(file),
                f"is a baseline of version {document['version']!r}, not {VERSION}",
                "write it anew with --write-baseline",
            )
        return frozenset(map(_read, document["findings"]))
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        hint = "write it with --write-baseline"
        raise TargetError(str(file), f"cannot be read: {reason}", hint) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        hint = "write it anew with --write-baseline"
        raise TargetError(str(file), "is not a baseline", hint) from error


def _read(entry: Any) -> Accepted:
    values = [entry[field] for field in Accepted._fields]
    if not all(isinstance(value, str) for value in values):
        raise TypeError("every field of a baseline is a string")
    return Accepted(*values)


def _accepted(report: Report, finding: Finding, file: Path) -> Accepted:
    name = report.template_name or ""
    return Accepted(_relative(report.display, file), name, finding.code, finding.fingerprint)


def _relative(display: str, file: Path) -> str:
    """However a file is named on the command line, a baseline knows it by one name."""
    if not os.path.lexists(display):
        return display
    return seen_from(followed(file).parent, display)
