"""What a check is made of: one errand for each target, or for each file of a directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from templatefix import __version__, api
from templatefix.chat.present import PRESENTATION
from templatefix.cli.hook import is_none_of_ours
from templatefix.cli.manner import Manner
from templatefix.cli.pages import repaired_under
from templatefix.cli.standard_input import encoded, standard_input
from templatefix.cli.units import Unit, units
from templatefix.cli.versions import library_versions
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault, Report
from templatefix.policy import policy_for
from templatefix.selection import select
from templatefix.settings import Settings
from templatefix.source import SourceOptions
from templatefix.source.options import STDIN
from templatefix.suppress import suppress
from templatefix.worker import Job
from templatefix.worker.codec import plain


@dataclass(frozen=True)
class Planned:
    """A target and its settings, or why it has none."""

    target: str
    settings: Settings
    fault: TargetError | None = None


@dataclass(frozen=True)
class Errand:
    """A unit of a target with the job that it is (None: there is nothing to do), and the report
    that it has from the outset, if any."""

    planned: Planned
    unit: Unit
    job: Job | None = None
    report: Report | None = None

    @property
    def name(self) -> str:
        return self.unit.part or self.planned.target

    def finished(self, report: Report) -> Report:
        """A report of its job as the settings want it."""
        settings = self.planned.settings
        chosen = settings.kwargs, settings.conversation, settings.recorded
        return select(suppress(report, complete=chosen == (None, None, None)), settings)


def errands(
    planned: Sequence[Planned],
    manner: Manner,
    conversations: Mapping[str, Mapping[str, Any]],
    *,
    hashed: bool,
) -> Iterator[Errand]:
    """Those of all targets, in their order. ``hashed`` as in ``worker.Job``."""
    alone = len(planned) == 1 and not manner.hook
    for each in planned:
        if manner.hook and is_none_of_ours(each.target):
            yield Errand(each, Unit(), report=without_verdict(each, None))
            continue
        if each.fault is not None:
            yield Errand(each, Unit(), report=without_verdict(each, each.fault))
            continue
        whole = _job(each, manner, conversations, alone, hashed)
        source = replace(whole.source, without_template=whole.server is not None)
        # A recording on standard input is read once.
        parts = [Unit()] if whole.recorded == "-" else units(each.target, source)
        for unit in parts:
            if unit.fault is not None:
                yield Errand(each, unit, report=without_verdict(each, unit.fault))
            else:
                # What a search finds need not be a chat template, however many targets there are.
                job = replace(whole, part=unit.part, alone=alone and unit.part is None)
                yield Errand(each, unit, job)


def _job(
    planned: Planned,
    manner: Manner,
    conversations: Mapping[str, Mapping[str, Any]],
    alone: bool,
    hashed: bool,
) -> Job:
    settings = planned.settings
    source = SourceOptions(
        revision=settings.revision,
        offline=settings.offline,
        template_name=settings.template_name,
        tokenizer=settings.tokenizer,
        chat_template=settings.chat_template,
        time_limit=manner.network_timeout,
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
    given = encoded(standard_input()) if planned.target == STDIN else None
    return Job(
        planned.target,
        source,
        options,
        given,
        alone,
        settings.recorded,
        settings.recover,
        manner.server,
        hashed=hashed,
    )


def _counts_turns(settings: Settings) -> bool:
    """Whether the report counts over the turns of every run."""
    drawn = settings.output_format == "html" or settings.plot is not None
    return settings.full or settings.verbose or drawn


def without_verdict(planned: Planned, error: TargetError | None) -> Report:
    """A target that is not checked: it cannot be, or a hook leaves it alone."""
    fault = None
    if error is not None:
        named = error.target == planned.target
        message = error.message if named else f"{error.target}: {error.message}"
        fault = Fault(error.code, message, error.hint)
    return Report(
        target=planned.target,
        display=planned.target,
        template_name=None,
        template_sha256=None,
        tokenizer_source=None,
        tokenizer_approximate=False,
        block_size=planned.settings.block_size,
        policy=policy_for(planned.settings.policy),
        verdict="not-evaluated" if fault is None else "error",
        fault=fault,
        skipped="not a chat template" if fault is None else None,
    )


class OptionsHash:
    """Hashes of all that decides what is reported of a template, beside its content.

    What only says where files come from, or how fast, is left out.
    """

    def __init__(self, accepted: Any, manner: Manner) -> None:
        self._common = [
            __version__,
            PRESENTATION,
            library_versions(),
            plain(manner.limits),
            None if accepted is None else sorted(map(repr, accepted)),
        ]
        self._known: dict[tuple[int, bool], str] = {}

    def of(self, errand: Errand) -> str:
        settings = errand.planned.settings
        key = id(settings), errand.unit.part is None
        if key not in self._known:
            self._known[key] = self._hash(errand, settings)
        return self._known[key]

    def _hash(self, errand: Errand, settings: Settings) -> str:
        job = errand.job
        parts: list[Any] = [
            *self._common,
            settings.select,
            settings.ignore,
            sorted(settings.per_file_ignores.items()),
            settings.full,
        ]
        if job is not None:
            source = job.source
            recorded = None if job.recorded in (None, "-") else _state(str(job.recorded))
            parts += [
                plain(job.options),
                [source.revision, source.template_name, source.tokenizer, source.chat_template],
                [job.alone, job.recorded, recorded, job.recover],
                None if job.server is None else job.server.url,
            ]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def _state(file: str) -> tuple[int, int]:
    """What changes when a file does; a recording may be too long to be hashed."""
    state = Path(file).stat()
    return state.st_size, state.st_mtime_ns
