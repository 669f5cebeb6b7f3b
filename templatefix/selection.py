"""Which findings count: ``--select``, ``--ignore`` and per-file ignores, by codes or prefixes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatch

from templatefix.findings.outcome import Report
from templatefix.settings import Settings
from templatefix.source.links import seen_from


def unknown_codes(settings: Settings, known: Iterable[str]) -> list[str]:
    """Codes in the settings that no rule has and that no rule's code begins with."""
    codes = [*settings.select, *settings.ignore]
    for listed in settings.per_file_ignores.values():
        codes += listed
    known = list(known)
    return [code for code in codes if not any(each.startswith(code) for each in known)]


def select(report: Report, settings: Settings) -> Report:
    """The report with the findings that the settings ask for."""
    ignored = [*settings.ignore, *_ignored_here(report.display, settings)]
    kept = tuple(
        finding
        for finding in report.findings
        if (not settings.select or finding.code.startswith(settings.select))
        and not finding.code.startswith(tuple(ignored))
    )
    return replace(report, findings=kept)


def _ignored_here(display: str, settings: Settings) -> list[str]:
    """Codes of the patterns that match the file: its path below the settings file, or its name."""
    path = display
    if settings.folder is not None and os.path.lexists(display):
        path = seen_from(settings.folder, display)
    path = path.replace(os.sep, "/")
    name = path.rpartition("/")[2]
    return [
        code
        for pattern, codes in settings.per_file_ignores.items()
        if fnmatch(path, pattern) or fnmatch(name, pattern)
        for code in codes
    ]
