"""The child as a process: forked, asked, killed, and told of when it is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from templatefix.limits import Limits
from templatefix.worker.board import Board
from templatefix.worker.frames import Reader, send

#: How long a child with a server of its own has to stop it, in seconds.
_GRACE = 10.0

#: Our ends of all children's pipes: a child that held another's would keep it waiting for us.
_OURS: set[int] = set()


class Process:
    """One child at a time; ``pid`` is None while there is none.

    ``has_server``: it may have started a server, which it needs time to stop.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.board = Board()
        self.pid: int | None = None
        self.has_server = False
        self._requests = -1
        self._reader: Reader | None = None

    @property
    def reader(self) -> Reader:
        """What it answers."""
        assert self._reader is not None
        return self._reader

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send a request, to a new child where there is none. Raises ``OSError``."""
        if self.pid is None:
            self.start()
        send(self._requests, request)

    def start(self) -> None:
        requests, self._requests = os.pipe()
        replies, answers = os.pipe()
        _OURS.update((self._requests, replies))
        parent = os.getpid()
        self.board.write(None)
        pid = os.fork()
        if pid == 0:
            for descriptor in _OURS:
                os.close(descriptor)
            from templatefix.worker.child import serve

            serve(requests, answers, self.board, self.limits, parent)
        self.pid = pid
        os.close(requests)
        os.close(answers)
        self._reader = Reader(replies)

    def stop(self) -> None:
        """End the child, where there is one."""
        pid, self.pid = self.pid, None
        if pid is None:
            return
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

    def status(self) -> int:
        """How a child that hung up has ended: a status as ``os.waitpid`` has it."""
        assert self.pid is not None
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        self._close()
        return status

    def _close(self) -> None:
        for descriptor in (self._requests, self.reader.descriptor):
            _OURS.discard(descriptor)
            os.close(descriptor)
        self._reader = None
