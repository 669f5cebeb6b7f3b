"""What a worker of a cluster runs: a job in, its outcomes out, both as JSON has them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from templatefix import __version__
from templatefix.worker.frames import Closed, Reader, send

_LOCK = threading.Lock()


class _Steward:
    """A process with a child, for one thread at a time."""

    def __init__(self, limits: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "templatefix.worker.steward"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs = self._process.stdin.fileno()
        self._answers = Reader(self._process.stdout.fileno())
        send(self._jobs, {"limits": limits})

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ``Closed`` or ``OSError`` where the process is gone."""
        send(self._jobs, {"job": job})
        return self._answers.receive()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


#: Those that have nothing to do, by their limits.
_IDLE: dict[str, list[_Steward]] = defaultdict(list)


def run(version: str, limits: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """The outcomes of a job, or the version that is here where another one is asked for.

    A steward that dies is replaced once. Raises ``RuntimeError`` where the next one dies as well.
    """
    if version != __version__:
        return {"version": __version__}
    idle = _IDLE[json.dumps(limits, sort_keys=True)]
    for _ in range(2):
        with _LOCK:
            steward = idle.pop() if idle else None
        try:
            steward = steward or _Steward(limits)
            answer = steward.ask(job)
        except (Closed, OSError):
            if steward is not None:
                steward.end()
            continue
        with _LOCK:
            idle.append(steward)
        return answer
    raise RuntimeError("the process that works on it died twice")
