"""A run of ``check`` from its settings to its exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from templatefix import api
from templatefix.baseline import read_baseline
from templatefix.cli.collecting import Collector, collector, end, on_the_terminal
from templatefix.cli.errands import Errand, Planned, errands, without_verdict
from templatefix.cli.manner import Manner
from templatefix.cli.output import expect_writable
from templatefix.cli.pages import expect_place
from templatefix.cli.units import Emptiness, crew_size
from templatefix.cli.watch import watch
from templatefix.errors import TargetError
from templatefix.rules import RULES
from templatefix.selection import unknown_codes
from templatefix.settings import Settings, find_settings, read_settings
from templatefix.source import is_local, load_hub_client
from templatefix.suppress import NAMES as SUPPRESSION_CODES
from templatefix.worker import Crew, Job, Outcome

if TYPE_CHECKING:  # a check on one machine imports nothing of a cluster
    from templatefix.worker.cluster import Cluster

__all__ = ["known_codes", "plan", "run", "unknown_codes"]


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
    common = Settings() if config is None else _read(Path(config), known)
    common = common.with_given(given)
    read: dict[Path | None, Settings | TargetError] = {None: common}
    planned = []
    for target in targets:
        file, fault = None, None
        if config is None and not isolated:
            try:
                file = find_settings(target)
                if file is not None and file not in read:
                    read[file] = _read(file, known).with_given(given)
            except TargetError as error:
                fault = error
                if file is not None:
                    read[file] = error
        settings = read[file]
        if isinstance(settings, TargetError):
            planned.append(Planned(target, common, settings))
        else:
            planned.append(Planned(target, settings, fault))
    return planned


def _read(file: Path, known: Iterable[str]) -> Settings:
    settings = read_settings(file)
    unknown = unknown_codes(settings, known)
    if unknown:
        hint = "templatefix rules lists the codes"
        raise TargetError(str(file), f"no rule has the code {unknown[0]!r}", hint)
    return settings


def run(planned: Sequence[Planned], manner: Manner) -> int:
    """Check every target, write what was found, and return the exit code.

    What concerns the whole run (formats, files, colour) is taken from the first target's settings.
    Raises TargetError.
    """
    whole = planned[0].settings
    accepted = None if whole.baseline is None else read_baseline(Path(whole.baseline))
    conversations = _conversations(planned)
    for name in {each.settings.recorded for each in planned} - {None}:
        api.Recording(str(name)).expect_readable()
    if whole.output_format == "html" and whole.output is not None:
        expect_place(whole.output)
    elif whole.output is not None:
        expect_writable(whole.output)
    for beside in (whole.plot, manner.write_baseline):
        if beside is not None:
            expect_writable(str(beside))
    streamed = whole.output_format == "jsonl"
    todo = list(errands(planned, manner, conversations, hashed=streamed))
    with ExitStack() as stack:
        targets = [each.target for each in planned]
        collected = collector(whole, accepted, manner, targets, stack)
        shown = not (whole.quiet or on_the_terminal(whole, manner))
        _check(todo, manner, collected, shown=shown)
        collected.close()
    return end(collected.endings, whole, manner)


def _check(todo: Sequence[Errand], manner: Manner, collected: Collector, *, shown: bool) -> None:
    """Do all errands, and hand over what they come to in their order."""
    if any(errand.job is not None and not is_local(errand.planned.target) for errand in todo):
        load_hub_client()
    jobs = (_without_known(each, collected) for each in todo)
    emptiness = Emptiness()
    with (
        watch("checking", [each.name for each in todo], wanted=shown) as progress,
        _workers(manner, len(todo)) as workers,
        closing(workers.check(jobs, progress.tick)) as each_done,
    ):
        for errand, outcomes in zip(todo, each_done, strict=True):
            planned = errand.planned
            found = [_finished(errand, each) for each in outcomes]
            if errand.report is not None:
                found.append(Outcome(errand.report))
            empty = emptiness.after(planned.target, errand.unit, len(found))
            if empty is not None:
                found.append(Outcome(without_verdict(planned, empty)))
            endings = [collected.take(errand, each) for each in found]
            progress.done(any(each.unusable for each in endings))


def _workers(manner: Manner, units: int) -> Crew | Cluster:
    """Those that do the work: children of this process, or a cluster's."""
    if manner.executor is not None:
        from templatefix.worker.cluster import Cluster

        return Cluster(manner.executor, manner.limits)
    return Crew(manner.limits, 1 if manner.server is not None else crew_size(manner.jobs, units))


def _without_known(errand: Errand, collected: Collector) -> Job | None:
    """The job, but for what is known to a run that goes on with another."""
    if errand.job is None:
        return None
    return replace(errand.job, known=collected.known(errand))


def _finished(errand: Errand, outcome: Outcome) -> Outcome:
    if outcome.report is None:
        return outcome
    return replace(outcome, report=errand.finished(outcome.report))


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
