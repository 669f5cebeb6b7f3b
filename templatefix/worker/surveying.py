"""The templates of a target repaired, to see what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from templatefix.checking.limited import CODE, words
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault
from templatefix.findings.survey import Surveyed
from templatefix.limits import Overrun
from templatefix.patching.repair import PatchOptions
from templatefix.patching.survey import survey_one
from templatefix.source import ChatTemplate, SourceOptions, load_each, load_part
from templatefix.source.links import followed
from templatefix.source.template import sha256
from templatefix.worker.unfinished import About

__all__ = ["SurveyJob", "Surveyed", "survey", "unfinished"]


@dataclass(frozen=True)
class SurveyJob:
    """A target, or a ``part`` of a directory. ``tokenizers`` are named for files and folders, by
    their absolute paths: such a one takes the place of what a template brings."""

    target: str
    source: SourceOptions
    options: PatchOptions
    part: str | None = None
    tokenizers: Mapping[str, str] = field(default_factory=dict)


def survey(
    job: SurveyJob,
    tell: Callable[[Surveyed], None],
    begun: Callable[[ChatTemplate], bool] = lambda _: True,
) -> None:
    """Tell what each template comes to; ``begun`` as in ``work.check``."""
    for found in _found(job):
        if isinstance(found, TargetError) or begun(found):
            tell(survey_one(found, job.options))


def unfinished(job: SurveyJob, about: About | None, why: Fault | Overrun) -> Surveyed:
    """What a template came to whose child did not live to say it."""
    about = about or About(job.target, job.part or job.target, None, "")
    over = isinstance(why, Overrun)
    return Surveyed(
        about.target,
        about.display,
        about.name,
        sha256(about.text) if about.text else None,
        "not-repaired" if over else "unusable",
        clause=CODE if over else None,
        why=words(why) if isinstance(why, Overrun) else why.message,
    )


def _found(job: SurveyJob) -> Iterator[ChatTemplate | TargetError]:
    """Every template of the target, with the tokenizer that is named for it."""
    for found in _loaded(job, job.source):
        if isinstance(found, TargetError):
            yield found
            continue
        tokenizer = _named(found, job.tokenizers)
        if tokenizer is None:
            yield found
            continue
        again = replace(job.source, revision=None, tokenizer=tokenizer)
        yield from (
            each
            for each in load_each(str(found.path), again)
            if isinstance(each, TargetError) or each.name == found.name
        )


def _loaded(job: SurveyJob, source: SourceOptions) -> Iterator[ChatTemplate | TargetError]:
    if job.part is not None:
        return load_part(job.target, Path(job.part), source)
    return load_each(job.target, source)


def _named(template: ChatTemplate, tokenizers: Mapping[str, str]) -> str | None:
    """The tokenizer that is named for a template's file, or for the folder that it lies in."""
    if template.path is None or not tokenizers:
        return None
    path = followed(template.path)
    return tokenizers.get(str(path)) or tokenizers.get(str(path.parent))
