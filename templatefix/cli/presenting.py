"""Reports in the format that is wanted, where they are wanted."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import click

from templatefix import __version__
from templatefix.chat.present import PRESENTATION
from templatefix.cli.endings import ending
from templatefix.cli.output import tell_written, write_file, write_stdout
from templatefix.cli.pages import write_figure, write_pages
from templatefix.findings.outcome import Report
from templatefix.render import PINNED_CLOCK, JinjaRenderer
from templatefix.report.edition import Edition, place
from templatefix.report.visible import visible
from templatefix.rules import RULES
from templatefix.settings import Settings

if TYPE_CHECKING:  # a run imports the modules of its own format only
    from templatefix.report.text import TextReport

# What people read comfortably, in cells; a file or a pipe gets the wider one.
_NARROWEST, _WIDEST = 60, 100


class Document:
    """One document about all reports, in the format that the settings ask for.

    The text for people is made as they come, while others work, and not when all wait for it; the
    reports are kept for other formats only.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reports: list[Report] = []
        self._faulty: list[Report] = []

    @cached_property
    def _text(self) -> TextReport | None:
        # Made with the first report, when those who make reports have begun to.
        return _text_for(self._settings) if self._settings.output_format == "text" else None

    def add(self, report: Report) -> None:
        if self._text is not None:
            self._text.add(report)
        if self._text is None or self._settings.plot is not None:
            self._reports.append(report)
        if report.fault is not None:
            self._faulty.append(report)

    def write(self) -> None:
        """Write it where the settings say, with the figure that they ask for."""
        reports, settings = self._reports, self._settings
        if settings.output_format == "html":
            write_pages(reports, settings.output, _edition(reports), quiet=settings.quiet)
        elif settings.output is None:
            write_stdout(self._formatted())
        else:
            write_file(settings.output, self._formatted())
            tell_written(settings.output, quiet=settings.quiet)
        if settings.plot is not None and not any(ending(report).unusable for report in reports):
            write_figure(reports, settings.plot)
            tell_written(settings.plot, quiet=settings.quiet)
        if self._text is not None and settings.output is None:
            return
        for report in self._faulty:
            tell_fault(report)

    def _formatted(self) -> str:
        """The document; only the module of its format is imported."""
        reports, settings = self._reports, self._settings
        if self._text is not None:
            return self._text.text()
        if settings.output_format == "github":
            from templatefix.report.github import github_report

            return github_report(reports)
        made_by = _edition(reports)
        if settings.output_format == "sarif":
            from templatefix.report.sarif import sarif_report

            return sarif_report(reports, made_by, RULES)
        from templatefix.report.json_report import json_report

        return json_report(reports, made_by, full=settings.full)


def _text_for(settings: Settings) -> TextReport:
    from templatefix.report.text import TextReport, TextStyle

    return TextReport(
        TextStyle(
            width=_width(settings),
            colour=_coloured(settings),
            quiet=settings.quiet,
            verbose=settings.verbose,
            infos=not settings.quiet or settings.verbose or settings.fail_on == "info",
        )
    )


def tell_fault(report: Report) -> None:
    """Where nobody reads the report itself, an unusable target is still named."""
    if report.fault is not None:
        hint = f" ({report.fault.hint})" if report.fault.hint else ""
        message = f"{place(report)}: {report.fault.message}{hint}"
        click.echo(f"templatefix: {visible(message)}", err=True)


def _edition(reports: Sequence[Report]) -> Edition:
    renderers = dict.fromkeys(report.renderer for report in reports)
    return edition(", ".join(renderers) or JinjaRenderer.name)


def edition(renderer: str) -> Edition:
    """That of reports made now."""
    return Edition(__version__, PRESENTATION, renderer, PINNED_CLOCK.isoformat())


def _coloured(settings: Settings) -> bool:
    if settings.color != "auto":
        return settings.color == "always"
    if settings.output is not None or os.environ.get("NO_COLOR"):
        return False
    return _on_terminal() and os.environ.get("TERM") != "dumb"


def _width(settings: Settings) -> int:
    if settings.output is not None or not _on_terminal():
        return _WIDEST
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
