"""A run of ``survey`` from what was asked to its exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from templatefix import __version__
from templatefix.chat.present import PRESENTATION
from templatefix.cli import patch_target_file as target_file
from templatefix.cli.output import write_file, write_stdout
from templatefix.cli.progress import progress
from templatefix.cli.versions import library_versions
from templatefix.errors import TargetError
from templatefix.findings.survey import Surveyed
from templatefix.patching.repair import PatchOptions
from templatefix.patching.survey import Found, survey
from templatefix.render import PINNED_CLOCK, JinjaRenderer
from templatefix.report.edition import Edition
from templatefix.report.survey_json import survey_json
from templatefix.report.survey_text import line, summary
from templatefix.source import ChatTemplate, SourceOptions, load_each

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


def run(asked: Asked) -> int:
    """Repair every template of the targets and print what came of it.

    Raises ``TargetError`` where an option names a file that cannot be used.
    """
    if asked.report is not None:
        target_file.expect_writable(asked.report, force=True)
    named = _tokenizers(asked.tokenizers) if asked.tokenizers is not None else {}
    options = PatchOptions(
        policy=asked.policy,
        block_size=asked.block_size,
        max_examples=asked.max_examples,
        seed=asked.seed,
    )
    surveyed: list[Surveyed] = []
    with progress(wanted=not asked.quiet) as shown:
        shown.now("reading templates")
        found = list(_found(asked, named))
        shown.now(f"template 1 of {len(found)}")
        with closing(survey(found, options, asked.jobs or _cores())) as outcomes:
            for one in outcomes:
                surveyed.append(one)
                if asked.verbose or not (asked.quiet or one.outcome in ("preserves", "skipped")):
                    shown.erase()
                    write_stdout(line(one, verbose=asked.verbose))
                shown.now(f"template {len(surveyed) + 1} of {len(found)}")
    write_stdout(summary(surveyed, asked.policy))
    if asked.report is not None:
        write_file(asked.report, _json(surveyed, asked))
    outcomes_seen = {each.outcome for each in surveyed}
    if "unusable" in outcomes_seen:
        return UNUSABLE
    return NOT_REPAIRED if "not-repaired" in outcomes_seen else DONE


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _found(asked: Asked, named: Mapping[Path, str]) -> Iterator[Found]:
    """Every template of the targets, with the tokenizer that is named for it."""
    source = SourceOptions(
        revision=asked.revision, offline=asked.offline, tokenizer=asked.tokenizer
    )
    for target in asked.targets:
        for found in load_each(target, source):
            if isinstance(found, TargetError):
                yield found
                continue
            tokenizer = _named(found, named)
            if tokenizer is None:
                yield found
                continue
            again = SourceOptions(offline=asked.offline, tokenizer=tokenizer)
            yield from (
                each
                for each in load_each(str(found.path), again)
                if isinstance(each, TargetError) or each.name == found.name
            )


def _named(template: ChatTemplate, named: Mapping[Path, str]) -> str | None:
    """The tokenizer that is named for a template's file, or for the folder that it lies in."""
    if template.path is None:
        return None
    path = template.path.resolve()
    return named.get(path) or named.get(path.parent)


def _tokenizers(name: str) -> dict[Path, str]:
    """Files and folders of templates, and the tokenizers named for them. Raises TargetError."""
    try:
        read = json.loads(Path(name).read_text("utf-8"))
    except OSError as error:
        raise TargetError(name, f"cannot be read: {error.strerror}", "check the path") from None
    except (ValueError, RecursionError) as error:
        raise TargetError(name, f"not JSON: {error}", 'expected {"FOLDER": "TOKENIZER"}') from None
    if not isinstance(read, dict) or not all(isinstance(each, str) for each in read.values()):
        raise TargetError(name, "not an object of strings", 'expected {"FOLDER": "TOKENIZER", ...}')
    base = Path(name).resolve().parent
    return {
        (base / key).resolve(): str(base / value) if (base / value).exists() else value
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
