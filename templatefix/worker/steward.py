"""A process of its own on another machine that has a child, for the workers of a cluster.

They have threads, which must not be forked. Started as ``python -P -m templatefix.worker.steward``,
it takes frames on standard input: the limits first, then a job at a time. It ends with its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal

from templatefix.limits import Limits
from templatefix.worker.codec import plain, typed
from templatefix.worker.frames import Closed, Reader, send
from templatefix.worker.job import Job, Outcome
from templatefix.worker.parent import Worker


def main() -> None:
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(1)
    os.dup2(2, 1)  # what anything prints is no answer
    jobs = Reader(0)
    with contextlib.suppress(Closed, BrokenPipeError):
        limits = typed(Limits, jobs.receive()["limits"])
        with Worker(limits) as worker:
            while True:
                outcomes = _outcomes(worker, typed(Job, jobs.receive()["job"]), parent)
                send(answers, {"outcomes": [plain(each) for each in outcomes]})


def _outcomes(worker: Worker, job: Job, parent: int) -> list[Outcome]:
    """What a job comes to. Raises ``Closed`` when nobody will hear of it."""
    found = []
    for outcome in worker.steps(job):
        if outcome is not None:
            found.append(outcome())
            continue
        if os.getppid() != parent:
            raise Closed
        worker.wait()
    return found


if __name__ == "__main__":
    main()
