"""A child that is a program of its own, where there is no ``fork``, as on Windows.

It is asked on its standard input and answers on its standard output. Pipes there cannot be waited
for, so that a thread of ours reads its answers; where nothing forks, threads do no harm. It tells
of each step before it begins, and hears no signal: whatever outlives its time is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from templatefix.limits import Limits
from templatefix.worker.board import step_of
from templatefix.worker.codec import plain
from templatefix.worker.frames import Closed, Reader, frame, send
from templatefix.worker.process import Process, no_room

#: The child sees the modules that we see, and none beside it that happen to lie in its directory.
_PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = sys.argv[1:]; "
    "from templatefix.worker.spawned_child import main; main()"
)

#: Ctrl-C is ours alone to hear; there is no such flag, nor a need for it, elsewhere.
_FLAGS: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)

#: Told of each answer of any child.
_NEWS = threading.Condition()


class _Told:
    """What the child says of its steps."""

    def __init__(self) -> None:
        self._shown = (0, False)
        self._words = ""

    def write(self, words: str | None) -> None:
        self._words = self._words if words is None else words
        self._shown = (self._shown[0] + 1, words is not None)

    def look(self) -> tuple[int, bool]:
        return self._shown

    def step(self) -> Mapping[str, Any]:
        return step_of(self._words)


class _Child:
    """A process and what it has answered so far, with a thread that reads it."""

    def __init__(self, limits: Limits) -> None:
        self.board = _Told()
        self.pid: int | None = None
        self._answers = deque[dict[str, Any]]()
        self._over = False
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                creationflags=_FLAGS,
            )
        except OSError as error:
            raise no_room(error) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._stdout = self._process.stdin, self._process.stdout
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        with contextlib.suppress(OSError):  # who asks it will hear that it is gone
            self.ask({"limits": plain(limits)})

    @property
    def has_news(self) -> bool:
        return self._over or bool(self._answers)

    def ask(self, request: Mapping[str, Any] | bytes) -> None:
        send(self._requests.fileno(), request)

    def take(self) -> dict[str, Any] | None:
        over = self._over  # before the look: the last answer comes before the end
        if self._answers:
            return self._answers.popleft()
        if over:
            raise Closed
        return None

    def kill(self) -> None:
        self._process.kill()

    def ended(self) -> int:
        """Wait for its end."""
        code = self._process.wait()
        self._thread.join()
        for pipe in (self._requests, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        return code

    def _read(self) -> None:
        reader = Reader(self._stdout.fileno())
        with contextlib.suppress(Closed, OSError, ValueError):
            while True:
                message = reader.receive()
                if "step" in message:
                    self.board.write(message["step"])
                elif "pid" in message:
                    # Not the process that we have started, where that is a launcher.
                    self.pid = message["pid"]
                else:
                    with _NEWS:
                        self._answers.append(message)
                        _NEWS.notify_all()
        with _NEWS:
            self._over = True
            _NEWS.notify_all()


class Spawned:
    """See ``Process``."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.has_server = False
        self.reads_input = False
        self._child: _Child | None = None
        self.lives = 0
        self._board = _Told()
        self._input: str | None = None

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    @property
    def board(self) -> _Told:
        """That of the last child, which may be gone."""
        return self._board

    @property
    def patience(self) -> float:
        return self.limits.seconds

    def start(self) -> None:
        self._child = _Child(self.limits)
        self.lives += 1
        self._board = self._child.board

    def request(self, message: Mapping[str, Any]) -> bytes:
        return frame({**message, "input": self._lent()} if self.reads_input else message)

    def ask(self, request: bytes) -> None:
        if self._child is None:
            self.start()
        assert self._child is not None
        self._child.ask(request)

    def take(self) -> dict[str, Any] | None:
        assert self._child is not None
        return self._child.take()

    def wait(self, those: Sequence[Process], seconds: float) -> None:
        children = [each._child for each in those if isinstance(each, Spawned)]
        with _NEWS:
            _NEWS.wait_for(lambda: any(each is None or each.has_news for each in children), seconds)

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self.ended()

    def ended(self) -> int:
        assert self._child is not None
        child, self._child = self._child, None
        self.lives += 1
        return child.ended()

    def _lent(self) -> str:
        """The name of a file with our standard input, which the child has not."""
        if self._input is None:
            descriptor, self._input = tempfile.mkstemp(prefix="templatefix-")
            weakref.finalize(self, Path(self._input).unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        return self._input
