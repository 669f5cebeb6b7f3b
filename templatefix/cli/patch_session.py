"""A run of ``patch`` from what was asked to its exit code."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import click

from templatefix import __version__, api
from templatefix.chat.present import PRESENTATION
from templatefix.cli import patch_target_file as target_file
from templatefix.cli import session
from templatefix.cli.limits import limits_of
from templatefix.cli.output import expect_writable, write_file, write_stdout
from templatefix.cli.progress import progress
from templatefix.cli.standard_input import encoded, standard_input
from templatefix.cli.versions import library_versions
from templatefix.findings.repair import RepairReport
from templatefix.patching.edits import unified_diff
from templatefix.patching.fixes import Unfixable, codes
from templatefix.patching.repair import PatchOptions
from templatefix.policy import POLICIES, original_of
from templatefix.render import PINNED_CLOCK, JinjaRenderer
from templatefix.report.edition import Edition
from templatefix.report.patch_json import patch_json
from templatefix.report.patch_text import Delivery, flags, patch_text
from templatefix.report.visible import visible
from templatefix.serving import emit
from templatefix.serving.assemble import ServeOptions
from templatefix.serving.connectors import Storage
from templatefix.settings import Settings
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.source.options import STDIN
from templatefix.worker import Worker

__all__ = ["Asked", "Unfixable", "asked", "fixes", "run"]

DONE, NOT_DONE = 0, 1

#: Options with a value that a command for another policy takes over from this one.
_REPEATED = (
    "tokenizer",
    "chat_template",
    "template_name",
    "revision",
    "kwargs",
    "reasoning_parser",
    "tool_call_parser",
    "connector",
    "config",
    "emit",
    "out",
)


@dataclass(frozen=True)
class Asked:
    """What the command line asks for; ``settings`` are its options that ``check`` has as well,
    with those of the settings file where it does not give them.

    ``given`` are the options that it gives, by name. ``afterwards`` is how a plain ``check`` of
    what is written would go.
    """

    target: str
    out: str | None
    in_place: bool
    diff: bool
    force: bool
    prefer_kwargs: bool
    emit: str | None
    report: str | None
    connector: str
    max_examples: int
    fix: tuple[str, ...]
    time_limit: float | None
    memory_limit: int | None
    network_timeout: float
    settings: Settings
    given: Mapping[str, Any]
    afterwards: api.CheckOptions

    @property
    def policy(self) -> str:
        return self.settings.policy or "lossless"


def asked(target: str, options: Mapping[str, Any], given: Mapping[str, Any]) -> Asked:
    """What is asked for. Raises ``TargetError`` for a settings file that cannot be used.

    How many conversations ``check`` tries is no measure of what a proof takes: ``max-examples``
    and ``search`` of the settings count for the check of the outcome alone.
    """
    (planned,) = session.plan(
        [target],
        {},
        config=options["config"],
        isolated=options["isolated"],
        known=session.known_codes(),
    )
    if planned.fault is not None:
        raise planned.fault
    stored = planned.settings
    shared = {each.name for each in fields(Settings)} - {"max_examples", "search"}
    settings = stored.with_given({k: v for k, v in given.items() if k in shared})
    afterwards = api.CheckOptions(
        block_size=settings.block_size,
        policy=stored.policy,
        kwargs=settings.kwargs,
        reasoning_parser=settings.reasoning_parser,
        tool_call_parser=settings.tool_call_parser,
        max_examples=stored.max_examples if stored.search else 0,
        seed=stored.seed,
    )
    own = {each.name for each in fields(Asked)} & options.keys()
    return Asked(
        target,
        settings=settings,
        given=given,
        afterwards=afterwards,
        **{name: options[name] for name in own},
    )


def fixes(given: Sequence[str]) -> tuple[str, ...]:
    """The codes of ``--fix``, which may hold several. Raises :class:`Unfixable`."""
    named = [code.strip() for each in given for code in each.split(",")]
    if not all(named):
        raise Unfixable("give --fix codes, separated by commas: TF202,TF203")
    return codes(named)


def run(asked: Asked) -> int:
    """Repair the target, write what was asked for, and return the exit code.

    All that can be known to fail is tried before the repair, which takes seconds.
    Raises ``TargetError``; then nothing was written.
    """
    if asked.out is not None and asked.out != "-":
        expect_writable(asked.out, force=asked.force)
    if asked.report is not None:
        expect_writable(asked.report)
    given = standard_input() if asked.target == STDIN else None
    with (
        Worker(limits_of(asked.time_limit, asked.memory_limit)) as worker,
        progress(wanted=not asked.settings.quiet) as shown,
    ):
        shown.now(f"patching {asked.target}")
        template = worker.the_template(asked.target, _source(asked), encoded(given))
        kept = target_file.kept(
            template, emit=asked.emit, in_place=asked.in_place, given=given or b""
        )
        report = worker.patch(template, _options(asked))
    if asked.report is not None:
        write_file(asked.report, _json(report))
    if report.text is None:
        _say(asked, report, Delivery("", None, _again(asked, template)))
        return NOT_DONE
    if asked.prefer_kwargs and report.flag_kwargs is not None:
        write_stdout(visible(flags(report.flag_kwargs)) + "\n")
        done = "nothing was written: these flags of the server do it as well"
        serve, warned = _serving(asked, template, None, report.flag_kwargs)
        _say(asked, report, Delivery(done, serve, _again(asked, template), warned))
        return DONE
    content = kept.with_template(report.text)
    if asked.diff:
        return _diff(asked, template, report, kept, content)
    written = asked.out
    if asked.in_place:
        written = kept.path
        if content != kept.content:
            kept.expect_unchanged()
            write_file(written, content)
    elif asked.out == "-":
        write_stdout(target_file.for_stdout(content))
    elif asked.out is not None:
        expect_writable(asked.out, force=asked.force)
        write_file(asked.out, content)
    _say(asked, report, _delivery(asked, report, template, kept, written))
    return DONE


def _source(asked: Asked) -> SourceOptions:
    settings = asked.settings
    return SourceOptions(
        revision=settings.revision,
        offline=settings.offline,
        template_name=settings.template_name,
        tokenizer=settings.tokenizer,
        chat_template=settings.chat_template,
        time_limit=asked.network_timeout,
    )


def _options(asked: Asked) -> PatchOptions:
    settings = asked.settings
    return PatchOptions(
        policy=asked.policy,
        kwargs=settings.kwargs,
        block_size=settings.block_size,
        max_examples=asked.max_examples,
        seed=settings.seed,
        reasoning_parser=settings.reasoning_parser,
        tool_call_parser=settings.tool_call_parser,
        afterwards=asked.afterwards,
        fix=asked.fix,
    )


def _diff(
    asked: Asked,
    template: ChatTemplate,
    report: RepairReport,
    kept: target_file.Kept,
    content: str,
) -> int:
    """Print what would change, as a patch that can be applied."""
    difference = unified_diff(kept.content, content, kept.label.lstrip("/"))
    write_stdout(target_file.for_stdout(difference))
    done = "nothing was written" if difference else "nothing would change"
    start = _start(asked, template, report)
    _say(asked, report, Delivery(done, None, _again(asked, template), start=start))
    return NOT_DONE if difference else DONE


def _delivery(
    asked: Asked,
    report: RepairReport,
    template: ChatTemplate,
    kept: target_file.Kept,
    written: str | None,
) -> Delivery:
    serve, warned = None, ""
    if asked.out == "-":
        done = "written to standard output"
    elif asked.in_place and report.status == "unchanged":
        done = f"{written} was left as it is"
    else:
        done = f"wrote {written}"
    if kept.is_json:
        done += "" if asked.in_place else "; it belongs into the model's directory"
        if kept.overruled_by is not None:
            done += f" ({kept.overruled_by} beside it takes precedence)"
    else:
        file = "FILE" if written is None or written == "-" else written
        patched = replace(template, text=report.text or template.text)
        serve, warned = _serving(asked, patched, file, asked.settings.kwargs or {})
    start = _start(asked, template, report)
    return Delivery(done, serve, _again(asked, template), warned, start)


def _serving(
    asked: Asked, template: ChatTemplate, file: str | None, kwargs: Mapping[str, Any]
) -> tuple[str, str]:
    """The command that serves the template, and warnings about it (empty: there are none)."""
    options = ServeOptions(
        kwargs,
        asked.settings.reasoning_parser,
        asked.settings.tool_call_parser,
        Storage(asked.connector),
    )
    plan = api.serve_patched(template, options, file, asked.settings.revision)
    alone = asked.connector == "none"
    return emit.one_line(plan) if alone else emit.text(plan), emit.advice(plan, notes=not alone)


def _again(asked: Asked, template: ChatTemplate) -> str:
    """The command that repairs the same target under the other policy."""
    other = next(policy for policy in POLICIES if policy != asked.policy)
    return _command(asked, template, other)


def _start(asked: Asked, template: ChatTemplate, report: RepairReport) -> str:
    """Where a template that was patched before would better be patched from, or nothing."""
    original = original_of(template.text)
    if original is None or report.status != "patched":
        return ""
    told = f"{template.display} was patched before"
    if template.original:
        return f"{told}, and its original is there: {_command(asked, template, asked.policy)}"
    return f"{told}: its original (sha256 {original[:12]}) is the better start"


def _command(asked: Asked, template: ChatTemplate, policy: str) -> str:
    """The command that was given, under a policy. A file that was patched from the target's own
    template is left out: a patch of a patch is the worse one."""
    words = ["templatefix", "patch", asked.target, "--policy", policy]
    for name in _REPEATED:
        value = asked.given.get(name)
        if value is not None and not (name == "chat_template" and template.original):
            spelled = json.dumps(value) if name == "kwargs" else str(value)
            words += ["--" + name.replace("_", "-"), spelled]
    words += ["--fix", ",".join(asked.fix)] if asked.fix else []
    for flag, wanted in (
        ("--offline", asked.given.get("offline")),
        ("--isolated", asked.given.get("isolated")),
        ("--in-place", asked.in_place),
        ("--diff", asked.diff),
        ("--force", asked.out not in (None, "-")),
    ):
        words += [flag] if wanted else []
    return shlex.join(words)


def _say(asked: Asked, report: RepairReport, delivery: Delivery) -> None:
    text = patch_text(report, delivery, quiet=asked.settings.quiet, verbose=asked.settings.verbose)
    if text:
        click.echo(text, err=True, nl=False)


def _json(report: RepairReport) -> str:
    edition = Edition(__version__, PRESENTATION, JinjaRenderer.name, PINNED_CLOCK.isoformat())
    return patch_json(report, edition, library_versions())
