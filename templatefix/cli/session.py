"""A run of ``check`` from its settings to its exit code."""

from __future__ import annotations

import os
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from templatefix import __version__, api
from templatefix.baseline import accept, baseline_text, hide, read_baseline
from templatefix.chat.present import PRESENTATION
from templatefix.cli.endings import evaluated, exit_code, unusable
from templatefix.cli.hook import is_none_of_ours
from templatefix.cli.output import write_file, write_stdout
from templatefix.cli.pages import expect_place, repaired_under, write_figure, write_pages
from templatefix.cli.progress import progress
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault, Report
from templatefix.render import PINNED_CLOCK, JinjaRenderer
from templatefix.report.edition import Edition, place
from templatefix.report.visible import visible
from templatefix.rules import RULES
from templatefix.selection import select, unknown_codes
from templatefix.serving.options import ServerOptions
from templatefix.settings import Settings, find_settings, read_settings
from templatefix.source import SourceOptions
from templatefix.source.options import STDIN
from templatefix.source.reading import MAX_BYTES
from templatefix.suppress import NAMES as SUPPRESSION_CODES
from templatefix.suppress import suppress
from templatefix.worker import Job, Limits, Worker

__all__ = ["known_codes", "plan", "run", "unknown_codes"]

# What people read comfortably, in cells; a file or a pipe gets the wider one.
_NARROWEST, _WIDEST = 60, 100


@dataclass(frozen=True)
class Planned:
    """A target and its settings, or why it has none."""

    target: str
    settings: Settings
    fault: TargetError | None = None


def known_codes() -> frozenset[str]:
    return frozenset(RULES) | frozenset(SUPPRESSION_CODES)


def plan(
    targets: Sequence[str],
    given: Mapping[str, Any],
    *,
    config: str | None,
    isolated: bool,
    known: Iterable[str],
) -> list[Planned]:
    """Each target with the settings that count for it.

    ``given`` is what the command line says. Raises TargetError when ``config`` cannot be used;
    a file that was found on the way makes only its own targets unusable.
    """
    common = Settings()
    if config is not None:
        common = _read(Path(config), known)
    planned = []
    for target in targets:
        settings, fault = common, None
        if config is None and not isolated:
            try:
                file = find_settings(target)
                settings = Settings() if file is None else _read(file, known)
            except TargetError as error:
                fault = error
        planned.append(Planned(target, settings.with_given(given), fault))
    return planned


def _read(file: Path, known: Iterable[str]) -> Settings:
    settings = read_settings(file)
    unknown = unknown_codes(settings, known)
    if unknown:
        hint = "templatefix rules lists the codes"
        raise TargetError(str(file), f"no rule has the code {unknown[0]!r}", hint)
    return settings


def run(
    planned: Sequence[Planned],
    write_baseline: Path | None,
    *,
    hook: bool,
    server: ServerOptions | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> int:
    """Check every target, write one report about all of them, and return the exit code.

    What concerns the whole run (formats, files, colour) is taken from the first target's settings.
    """
    whole = planned[0].settings
    baseline = None if whole.baseline is None else Path(whole.baseline)
    accepted = frozenset() if baseline is None else read_baseline(baseline)
    conversations = _conversations(planned)
    for name in {each.settings.recorded for each in planned} - {None}:
        api.Recording(str(name)).expect_readable()
    if whole.output_format == "html" and whole.output is not None:
        expect_place(whole.output)
    alone = len(planned) == 1 and not hook
    checked: list[tuple[Report, str]] = []
    with Worker(limits) as worker, progress(wanted=not whole.quiet) as shown:
        for number, each in enumerate(planned, start=1):
            shown.now(f"checking {each.target} ({number} of {len(planned)})")
            if hook and is_none_of_ours(each.target):
                reports = [_without_verdict(each, None)]
            else:
                reports = _check(each, conversations, alone, server, worker)
            checked += [(report, each.settings.fail_on) for report in reports]
    if write_baseline is not None:
        accepted = accept((report for report, _ in checked), write_baseline)
        write_file(str(write_baseline), baseline_text(accepted))
        click.echo(f"wrote {len(accepted)} findings to {visible(str(write_baseline))}", err=True)
        baseline = write_baseline
    if baseline is not None:
        checked = [(hide(report, accepted, baseline), fail_on) for report, fail_on in checked]
    reports = [report for report, _ in checked]
    _write(reports, whole)
    if not evaluated(reports) and not any(map(unusable, reports)) and not hook:
        click.echo("templatefix: nothing was evaluated (see --verbose)", err=True)
    return exit_code(checked, strict_coverage=whole.strict_coverage)


def _check(
    planned: Planned,
    conversations: Mapping[str, Mapping[str, Any]],
    alone: bool,
    server: ServerOptions | None,
    worker: Worker,
) -> list[Report]:
    settings = planned.settings
    if planned.fault is not None:
        return [_without_verdict(planned, planned.fault)]
    source = SourceOptions(
        revision=settings.revision,
        offline=settings.offline,
        template_name=settings.template_name,
        tokenizer=settings.tokenizer,
        chat_template=settings.chat_template,
    )
    conversation = settings.conversation
    options = api.CheckOptions(
        block_size=settings.block_size,
        policy=settings.policy,
        kwargs=settings.kwargs,
        conversation=None if conversation is None else conversations[conversation],
        reasoning_parser=settings.reasoning_parser,
        tool_call_parser=settings.tool_call_parser,
        full=_counts_turns(settings),
        max_examples=settings.max_examples if settings.search else 0,
        seed=settings.seed,
        repair_under=repaired_under(settings),
    )
    given = None
    if planned.target == STDIN:
        # Read here: a child that is killed must not take it along.
        given = b64encode(sys.stdin.buffer.read(MAX_BYTES + 1)).decode("ascii")
    complete = settings.kwargs is None and conversation is None and settings.recorded is None
    job = Job(
        planned.target,
        source,
        options,
        given,
        alone,
        settings.recorded,
        settings.recover,
        server,
    )
    return [select(suppress(report, complete=complete), settings) for report in worker.check(job)]


def _counts_turns(settings: Settings) -> bool:
    """Whether the report counts over the turns of every run."""
    drawn = settings.output_format == "html" or settings.plot is not None
    return settings.full or settings.verbose or drawn


def _without_verdict(planned: Planned, error: TargetError | None) -> Report:
    """A target that is not checked: its settings cannot be used, or a hook leaves it alone."""
    fault = None
    if error is not None:
        fault = Fault(error.code, f"{error.target}: {error.message}", error.hint)
    return Report(
        target=planned.target,
        display=planned.target,
        template_name=None,
        template_sha256=None,
        tokenizer_source=None,
        tokenizer_approximate=False,
        block_size=planned.settings.block_size,
        policy=planned.settings.policy or "keep-reasoning",
        verdict="not-evaluated" if fault is None else "error",
        fault=fault,
        skipped="not a chat template" if fault is None else None,
    )


def _conversations(planned: Sequence[Planned]) -> dict[str, Mapping[str, Any]]:
    """The conversations that the user names, each read once. Raises TargetError."""
    names = {each.settings.conversation for each in planned} - {None}
    return {name: read_conversation_file(name) for name in sorted(filter(None, names))}


def read_conversation_file(name: str) -> Mapping[str, Any]:
    """The conversation in a file, or on standard input (``-``). Raises TargetError."""
    label = "<stdin>" if name == "-" else name
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise TargetError(label, f"cannot be read: {reason}", "check the path") from error
    except ValueError as error:
        raise TargetError(label, "is not UTF-8", "save it as UTF-8") from error
    conversation: Mapping[str, Any] = api.read_conversation(text, label)
    return conversation


def _write(reports: Sequence[Report], settings: Settings) -> None:
    if settings.output_format == "html":
        write_pages(reports, settings.output, _edition(reports))
    elif settings.output is None:
        write_stdout(_formatted(reports, settings))
    else:
        write_file(settings.output, _formatted(reports, settings))
    if settings.plot is not None and not any(map(unusable, reports)):
        write_figure(reports, settings.plot)
    if settings.output_format == "text" and settings.output is None:
        return
    for report in reports:
        # Where nobody reads the report itself, an unusable target is still named.
        if report.fault is not None:
            hint = f" ({report.fault.hint})" if report.fault.hint else ""
            message = f"{place(report)}: {report.fault.message}{hint}"
            click.echo(f"templatefix: {visible(message)}", err=True)


def _formatted(reports: Sequence[Report], settings: Settings) -> str:
    """The report in the format that is wanted; only that format's module is imported."""
    if settings.output_format == "text":
        from templatefix.report.text import TextStyle, text_report

        style = TextStyle(
            width=_width(settings),
            colour=_coloured(settings),
            quiet=settings.quiet,
            verbose=settings.verbose,
            infos=not settings.quiet or settings.verbose or settings.fail_on == "info",
        )
        return text_report(reports, style)
    if settings.output_format == "github":
        from templatefix.report.github import github_report

        return github_report(reports)
    edition = _edition(reports)
    if settings.output_format == "sarif":
        from templatefix.report.sarif import sarif_report

        return sarif_report(reports, edition, RULES)
    from templatefix.report.json_report import json_report

    return json_report(reports, edition, full=settings.full)


def _edition(reports: Sequence[Report]) -> Edition:
    renderers = dict.fromkeys(report.renderer for report in reports)
    renderer = ", ".join(renderers) or JinjaRenderer.name
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
