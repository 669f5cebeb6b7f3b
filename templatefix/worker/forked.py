"""A child that is forked: what is imported is there at once, and it hears signals."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from templatefix.limits import Limits
from templatefix.worker.board import Board
from templatefix.worker.child import serve
from templatefix.worker.frames import Reader, frame, send
from templatefix.worker.process import Process, no_room

#: How long a child with a server of its own has to stop it, in seconds.
_GRACE = 10.0

#: Beside what a template may take, for our own libraries and what is kept of a run.
_OWN_MEGABYTES = 2048
_PR_SET_PDEATHSIG = 1

#: Our ends of all children's pipes: a child that held another's would keep it waiting for us.
_OURS: set[int] = set()


class Replies(Reader):
    """Reads frames as far as they are there."""

    def take(self) -> dict[str, Any] | None:
        """The next message; None where it is not there yet. Raises ``Closed``."""
        while (message := self._whole()) is None and _readable([self.descriptor], 0):
            self._read()
        return message


def _readable(descriptors: Sequence[int], seconds: float) -> bool:
    """Whether there is something to read, waiting for it until the time is over."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Forked:
    """See ``Process``."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.board = Board()
        self.pid: int | None = None
        self.lives = 0
        self.has_server = False
        self.reads_input = False
        self._requests = -1
        self._replies: Replies | None = None

    @property
    def patience(self) -> float:
        return self.limits.longest

    def request(self, message: Mapping[str, Any]) -> bytes:
        return frame(message)

    def ask(self, request: bytes) -> None:
        if self.pid is None:
            self.start()
        send(self._requests, request)

    def take(self) -> dict[str, Any] | None:
        return self._reader.take()

    def wait(self, those: Sequence[Process], seconds: float) -> None:
        descriptors = [each._reader.descriptor for each in those if isinstance(each, Forked)]
        _readable(descriptors, seconds)

    def start(self) -> None:
        parent = os.getpid()
        self.board.end()
        opened: list[int] = []
        try:
            for _ in range(2):
                opened.extend(os.pipe())
            requests, self._requests, replies, answers = opened
            _OURS.update((self._requests, replies))
            pid = os.fork()
        except OSError as error:
            _OURS.difference_update(opened)
            for descriptor in opened:
                os.close(descriptor)
            raise no_room(error) from None
        if pid == 0:
            for descriptor in _OURS:
                os.close(descriptor)
            _live(requests, answers, self.board, self.limits, parent)
        self.pid = pid
        self.lives += 1
        os.close(requests)
        os.close(answers)
        self._replies = Replies(replies)

    def stop(self) -> None:
        pid, self.pid = self.pid, None
        if pid is None:
            return
        self.lives += 1
        try:
            if self.has_server:
                os.kill(pid, signal.SIGTERM)
                end = time.monotonic() + _GRACE
                while time.monotonic() < end:
                    if os.waitpid(pid, os.WNOHANG)[0]:
                        return
                    time.sleep(0.02)
        finally:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            self._close()

    def ended(self) -> int:
        assert self.pid is not None
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        self.lives += 1
        self._close()
        return os.waitstatus_to_exitcode(status)

    @property
    def _reader(self) -> Replies:
        assert self._replies is not None
        return self._replies

    def _close(self) -> None:
        for descriptor in (self._requests, self._reader.descriptor):
            _OURS.discard(descriptor)
            os.close(descriptor)
        self._replies = None


def _live(requests: int, replies: int, board: Board, limits: Limits, parent: int) -> NoReturn:
    """The child's life, until the parent closes the pipe. Never returns."""
    code = 1
    try:
        _settle(parent, limits)
        gc.freeze()  # what was imported is no garbage, and shared with the parent while untouched
        serve(Reader(requests).receive, replies, board, limits)
        code = 0
    finally:
        # Nothing of what the parent had buffered or registered is ours to flush or to run.
        os._exit(code)


def _settle(parent: int, limits: Limits) -> None:
    """Make the process one that ends with its parent, and that leaves signals to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        most = (4 * limits.megabytes + _OWN_MEGABYTES) << 20
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
