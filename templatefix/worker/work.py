"""The work itself, wherever it is done: in the child, or in-process where there can be none."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from templatefix import api
from templatefix.findings.outcome import Report
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.worker.content import content_of
from templatefix.worker.job import Content, Job, Outcome


def check(
    job: Job,
    tell: Callable[[Outcome], None],
    begun: Callable[[ChatTemplate, Content | None], bool] = lambda *_: True,
) -> None:
    """Tell the outcomes of a job, each as soon as it is known.

    ``begun`` is told of every template before it is looked into, and may say that it is passed
    over: then it has no outcome at all.
    """
    content: Content | None = None

    def begin(template: ChatTemplate) -> bool:
        nonlocal content
        content = content_of(template) if job.hashed else None
        if not begun(template, content):
            return False
        if content is not None and content in job.known:
            tell(Outcome(None, content))
            return False
        return True

    for report in _reports(job, begin):
        tell(Outcome(report, content))
        content = None


def _reports(job: Job, begun: Callable[[ChatTemplate], bool]) -> Iterator[Report]:
    """See ``api.check_each``."""
    more: dict[str, Any] = {}
    if job.recorded is not None:
        stdin = sys.stdin.buffer if job.recorded == "-" else None
        more["recording"] = api.Recording(job.recorded, stdin)
        more["recover"] = job.recover
    if job.server is not None:
        more["server"] = job.server
    if job.part is not None:
        more["part"] = Path(job.part)
    yield from api.check_each(
        job.target, job.source, job.options, stream(job.given), job.alone, begun=begun, **more
    )


def stream(given: str | None) -> IO[bytes] | None:
    """Standard input as it was read."""
    return None if given is None else io.BytesIO(base64.b64decode(given))


def ready_for(target: str, source: SourceOptions) -> list[str]:
    """The paths of the ready templates that fit a target's own. Raises ``TargetError``."""
    from templatefix.ready.fit import fitting
    from templatefix.ready.shelf import shelf

    found = fitting(api.the_template(target, source), shelf())
    return [str(each.path) for each in found]
