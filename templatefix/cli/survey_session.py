"""A run of ``survey`` from what was asked to its exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from templatefix import __version__
from templatefix.chat.present import PRESENTATION
from templatefix.cli.limits import limits_of
from templatefix.cli.output import expect_writable, write_file, write_stdout
from templatefix.cli.units import Emptiness, Unit, crew_size, units
from templatefix.cli.versions import library_versions
from templatefix.cli.watch import watch
from templatefix.errors import TargetError
from templatefix.findings.survey import Surveyed
from templatefix.patching.repair import PatchOptions
from templatefix.patching.survey import survey_one
from templatefix.render import PINNED_CLOCK, JinjaRenderer
from templatefix.report.edition import Edition
from templatefix.report.survey_json import survey_json
from templatefix.report.survey_text import line, summary
from templatefix.source import SourceOptions
from templatefix.source.links import followed
from templatefix.worker import Crew, Worker
from templatefix.worker.surveying import SurveyJob

DONE, NOT_REPAIRED, UNUSABLE = 0, 1, 2


@dataclass(frozen=True)
class Asked:
    """The options of the command line, by their names there."""

    targets: tuple[str, ...]
    policy: str
    jobs: int | None
    report: str | None
    tokenizer: str | None
    tokenizers: str | None
    revision: str | None
    offline: bool
    block_size: int
    max_examples: int
    seed: int
    quiet: bool
    verbose: bool
    time_limit: float | None
    memory_limit: int | None
    network_timeout: float

    def wants(self, one: Surveyed) -> bool:
        """Whether a template has a line of its own."""
        return self.verbose or not (self.quiet or one.outcome in ("preserves", "skipped"))


def run(asked: Asked) -> int:
    """Repair every template of the targets and print what came of it.

    Raises ``TargetError`` where an option names a file that cannot be used.
    """
    if asked.report is not None:
        expect_writable(asked.report)
    named = _tokenizers(asked.tokenizers) if asked.tokenizers is not None else {}
    options = PatchOptions(
        policy=asked.policy,
        block_size=asked.block_size,
        max_examples=asked.max_examples,
        seed=asked.seed,
    )
    source = SourceOptions(
        revision=asked.revision,
        offline=asked.offline,
        tokenizer=asked.tokenizer,
        time_limit=asked.network_timeout,
    )
    limits = limits_of(asked.time_limit, asked.memory_limit)
    surveyed: list[Surveyed] = []
    errands = [(target, each) for target in asked.targets for each in units(target, source)]
    jobs = [_job(*errand, source, options, named) for errand in errands]
    names = [unit.part or target for target, unit in errands]
    emptiness = Emptiness()
    with (
        watch("repairing", names, wanted=not asked.quiet) as shown,
        Crew(limits, crew_size(asked.jobs, len(errands))) as crew,
        closing(crew.each(jobs, Worker.survey_steps, shown.tick)) as each_done,
    ):
        for (target, unit), found in zip(errands, each_done, strict=True):
            empty = emptiness.after(target, unit, len(found))
            found += [survey_one(error, options) for error in (unit.fault, empty) if error]
            surveyed += found
            told = [each for each in found if asked.wants(each)]
            if told:
                shown.erase()
                write_stdout("".join(line(each, verbose=asked.verbose) for each in told))
            shown.done(any(each.outcome == "unusable" for each in found))
    write_stdout(summary(surveyed, asked.policy))
    if asked.report is not None:
        write_file(asked.report, _json(surveyed, asked))
    outcomes_seen = {each.outcome for each in surveyed}
    if "unusable" in outcomes_seen:
        return UNUSABLE
    return NOT_REPAIRED if "not-repaired" in outcomes_seen else DONE


def _job(
    target: str,
    unit: Unit,
    source: SourceOptions,
    options: PatchOptions,
    named: Mapping[str, str],
) -> SurveyJob | None:
    """None where there is nothing to load."""
    if unit.fault is not None:
        return None
    place = followed(unit.part or target)
    there = {key: named[key] for key in (str(place), str(place.parent)) if key in named}
    if place.is_dir():
        below = str(place) + os.sep
        there |= {key: value for key, value in named.items() if key.startswith(below)}
    return SurveyJob(target, source, options, unit.part, there)


def _tokenizers(name: str) -> dict[str, str]:
    """Files and folders of templates, and the tokenizers named for them. Raises TargetError."""
    try:
        read = json.loads(Path(name).read_text("utf-8"))
    except OSError as error:
        raise TargetError(name, f"cannot be read: {error.strerror}", "check the path") from None
    except (ValueError, RecursionError) as error:
        raise TargetError(name, f"not JSON: {error}", 'expected {"FOLDER": "TOKENIZER"}') from None
    if not isinstance(read, dict) or not all(isinstance(each, str) for each in read.values()):
        raise TargetError(name, "not an object of strings", 'expected {"FOLDER": "TOKENIZER", ...}')
    base = followed(name).parent
    return {
        str(followed(base / key)): str(base / value) if (base / value).exists() else value
        for key, value in read.items()
    }


def _json(surveyed: Sequence[Surveyed], asked: Asked) -> str:
    edition = Edition(__version__, PRESENTATION, JinjaRenderer.name, PINNED_CLOCK.isoformat())
    options = {
        "policy": asked.policy,
        "block_size": asked.block_size,
        "max_examples": asked.max_examples,
        "seed": asked.seed,
    }
    return survey_json(surveyed, options, edition, library_versions())
