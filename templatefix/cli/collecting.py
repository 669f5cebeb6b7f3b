"""What is done with the reports of a check as they come, and how it ends."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import click

from templatefix.baseline import Accepted, accept, baseline_text, hide
from templatefix.cli.endings import Ending, ending, exit_code
from templatefix.cli.errands import Errand, OptionsHash
from templatefix.cli.lines import FileLines, Lines, StdoutLines
from templatefix.cli.manner import Manner
from templatefix.cli.output import tell_written, write_file
from templatefix.cli.presenting import Document, edition, tell_fault
from templatefix.cli.resumed import ResumedLines
from templatefix.findings.outcome import Report
from templatefix.report.json_lines import report_line
from templatefix.report.visible import visible
from templatefix.settings import Settings
from templatefix.worker import Content, Outcome


class Collector(Protocol):
    """Takes every outcome in the order of the targets."""

    def known(self, errand: Errand) -> tuple[Content, ...]:
        """Contents of the errand's target whose outcome is known."""

    def take(self, errand: Errand, outcome: Outcome) -> Ending:
        """What was found out about a template."""

    def close(self) -> None:
        """Tell what remains to be told, when all is taken."""

    @property
    def endings(self) -> Sequence[tuple[Ending, str]]:
        """Those of all that was taken."""


class Gathered:
    """Reports of which one document is written at the end."""

    def __init__(
        self, whole: Settings, accepted: frozenset[Accepted] | None, write_baseline: Path | None
    ) -> None:
        self._whole = whole
        self._accepted = accepted
        self._write_baseline = write_baseline
        self._document = Document(whole)
        self._held_back: list[tuple[Report, str]] = []
        self.endings: list[tuple[Ending, str]] = []

    def known(self, errand: Errand) -> tuple[Content, ...]:
        return ()

    def take(self, errand: Errand, outcome: Outcome) -> Ending:
        assert outcome.report is not None
        taken = outcome.report, errand.planned.settings.fail_on
        if self._write_baseline is not None:  # what is accepted, all of them together tell
            self._held_back.append(taken)
            return ending(outcome.report)
        return self._add(*taken, self._whole.baseline)

    def _add(self, report: Report, fail_on: str, baseline: str | None) -> Ending:
        if self._accepted is not None and baseline is not None:
            report = hide(report, self._accepted, Path(baseline))
        self._document.add(report)
        self.endings.append((ending(report), fail_on))
        return self.endings[-1][0]

    def close(self) -> None:
        if self._write_baseline is not None:
            written = str(self._write_baseline)
            reports = (report for report, _ in self._held_back)
            self._accepted = accept(reports, self._write_baseline)
            write_file(written, baseline_text(self._accepted))
            told = f"wrote {len(self._accepted)} findings to {visible(written)}"
            click.echo(told, err=True)
            for report, fail_on in self._held_back:
                self._add(report, fail_on, written)
        self._document.write()


class Streamed:
    """Reports that are written one by one, as JSON lines."""

    def __init__(
        self,
        whole: Settings,
        accepted: frozenset[Accepted] | None,
        lines: Lines,
        options: OptionsHash,
    ) -> None:
        self._whole = whole
        self._accepted = accepted
        self._lines = lines
        self._options = options
        self._faulty: list[Report] = []
        self.endings: list[tuple[Ending, str]] = []

    def known(self, errand: Errand) -> tuple[Content, ...]:
        if not isinstance(self._lines, ResumedLines):
            return ()
        options = self._options.of(errand)
        return self._lines.known(errand.planned.target, options, errand.unit.part)

    def take(self, errand: Errand, outcome: Outcome) -> Ending:
        report, options = outcome.report, self._options.of(errand)
        if report is None:
            assert isinstance(self._lines, ResumedLines)
            assert outcome.content is not None
            found = self._lines.keep(errand.planned.target, options, outcome.content)
        else:
            if self._accepted is not None:
                report = hide(report, self._accepted, Path(str(self._whole.baseline)))
            found = ending(report)
            line = report_line(
                report,
                edition(report.renderer),
                full=errand.planned.settings.full,
                content_sha256=None if outcome.content is None else outcome.content.sha256,
                options_sha256=options,
            )
            self._lines.add(line)
            if report.fault is not None:
                self._faulty.append(report)
        self.endings.append((found, errand.planned.settings.fail_on))
        return found

    def close(self) -> None:
        for report in self._faulty:
            tell_fault(report)
        if isinstance(self._lines, ResumedLines):
            tell_written(self._lines.name, quiet=self._whole.quiet, more=self._lines.summary)
        elif self._whole.output is not None:
            tell_written(self._whole.output, quiet=self._whole.quiet)


def collector(
    whole: Settings,
    accepted: frozenset[Accepted] | None,
    manner: Manner,
    targets: Sequence[str],
    stack: contextlib.ExitStack,
) -> Collector:
    """The one that the settings ask for; ``stack`` closes its files. Raises ``TargetError``."""
    if whole.output_format != "jsonl":
        return Gathered(whole, accepted, manner.write_baseline)
    lines: Lines
    if manner.resume is not None:
        lines = stack.enter_context(ResumedLines(manner.resume, targets))
    elif whole.output is not None:
        lines = stack.enter_context(FileLines(whole.output))
    else:
        lines = StdoutLines()
    return Streamed(whole, accepted, lines, OptionsHash(accepted, manner))


def on_the_terminal(whole: Settings, manner: Manner) -> bool:
    """Whether reports are written to the terminal while the run goes on."""
    streamed = whole.output_format == "jsonl" and whole.output is None and manner.resume is None
    return streamed and sys.stdout is not None and sys.stdout.isatty()


def end(endings: Sequence[tuple[Ending, str]], whole: Settings, manner: Manner) -> int:
    """The exit code, and a word where it might be taken for more than it says."""
    nothing = not any(each.evaluated or each.unusable for each, _ in endings)
    if nothing and not manner.hook:
        click.echo("templatefix: nothing was evaluated (see --verbose)", err=True)
    return exit_code(endings, strict_coverage=whole.strict_coverage)
