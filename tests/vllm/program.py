"""A program that the tests start: waited for until it is ready, ended with all that it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

STOP_SECONDS = 20


class NotReady(Exception):
    """A program ended, or did not get ready in time; the message ends with its log."""


@dataclass(frozen=True)
class Program:
    """What to run. It runs in ``home`` and writes its log, named after ``name``, there."""

    name: str
    command: Sequence[str]
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.home / f"{self.name}.log"


@contextmanager
def running(program: Program, ready: Callable[[], bool], seconds: float) -> Iterator[None]:
    """The program once it is ``ready``, ended at the end whatever happens.

    Raises :class:`NotReady` when it ends before or is not ready after ``seconds``.
    """
    with program.log.open("wb") as output:
        child = subprocess.Popen(
            program.command,
            env={**plain_environment(program.home), **program.environment},
            cwd=program.home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + seconds
        while not ready():
            if child.poll() is not None or time.monotonic() > deadline:
                tail = program.log.read_text(errors="replace")[-3000:]
                raise NotReady(f"{program.name} does not start:\n{tail}")
            time.sleep(0.2)
        yield
    finally:
        _end(child)


def plain_environment(home: Path) -> dict[str, str]:
    """Nothing of ours but the clock's zone, and nothing that would reach for the network."""
    environment = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
    environment |= dict.fromkeys(
        (
            "HF_HUB_OFFLINE",
            "TRANSFORMERS_OFFLINE",
            "VLLM_NO_USAGE_STATS",
            "DO_NOT_TRACK",
            "OMP_NUM_THREADS",
        ),
        "1",
    )
    return environment | {
        "HOME": str(home),
        "VLLM_LOGGING_LEVEL": "ERROR",
        "TOKENIZERS_PARALLELISM": "false",
    }


def free_port() -> int:
    """A port of the loopback interface that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends a program and what it started; it is the leader of its own process group."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, signal_number)
            child.wait(STOP_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
