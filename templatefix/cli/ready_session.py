"""Runs of ``ready for`` and ``ready record`` from what was asked to their exit codes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from templatefix.cli.output import write_file, write_stdout
from templatefix.cli.progress import progress
from templatefix.errors import TargetError
from templatefix.ready.fit import serving
from templatefix.ready.shelf import shelf, take
from templatefix.report.visible import visible
from templatefix.source import SourceOptions
from templatefix.worker import Limits, Worker

FOUND, NOT_FOUND = 0, 1


def find(target: str, source: SourceOptions, limits: Limits) -> int:
    """Print the paths of the ready templates for a target. Raises ``TargetError``."""
    found = [str(each.path) for each in serving(target, shelf())]
    if not found:
        with Worker(limits) as worker:
            found = worker.ready_for(target, source)
    write_stdout("".join(f"{path}\n" for path in found))
    if not found:
        click.echo(
            f"templatefix: {visible(target)}: no ready template fits "
            f"(templatefix patch repairs its own)",
            err=True,
        )
    return FOUND if found else NOT_FOUND


def record(
    name: str,
    references: Sequence[str],
    source: SourceOptions,
    check: bool,
    max_examples: int,
    limits: Limits,
) -> int:
    """Measure a ready template; write its record, or compare it. Raises ``TargetError``."""
    ready = take(name)
    targets = _targets(references, ready.header.references)
    with progress(wanted=True) as shown, Worker(limits) as worker:
        shown.now(f"measuring {name}")
        text = worker.record(name, targets, source, max_examples)
    path = ready.record_path
    known = path.read_text(encoding="utf-8") if path.is_file() else None
    if known == text:
        click.echo(f"{path} is up to date", err=True)
        return FOUND
    if check:
        click.echo(f"{path} is stale: write it again without --check", err=True)
        return NOT_FOUND
    write_file(str(path), text)
    click.echo(f"wrote {path}", err=True)
    return FOUND


def _targets(references: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    found = {}
    for reference in references:
        model_id, equals, target = reference.partition("=")
        if not equals or not target:
            raise click.UsageError(f"--reference takes MODEL_ID=TARGET, not {reference!r}")
        if model_id not in known:
            names = ", ".join(known)
            raise TargetError(model_id, "the header names no such reference", f"it has: {names}")
        found[model_id] = target
    return found
