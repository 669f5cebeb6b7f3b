"""The work itself, wherever it is done: in the child, or in-process where there can be none."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from templatefix import api
from templatefix.findings.outcome import Report
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.worker.job import Job


def reports(job: Job, begun: Callable[[ChatTemplate], bool] | None = None) -> Iterator[Report]:
    """The reports of a job; see ``api.check_each``."""
    more: dict[str, Any] = {}
    if job.recorded is not None:
        stdin = sys.stdin.buffer if job.recorded == "-" else None
        more["recording"] = api.Recording(job.recorded, stdin)
        more["recover"] = job.recover
    if job.server is not None:
        more["server"] = job.server
    if begun is not None:
        more["begun"] = begun
    yield from api.check_each(
        job.target, job.source, job.options, stream(job.given), job.alone, **more
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
