"""What ``spawned.py`` starts: a child that is asked on standard input and answers on output."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import threading
from typing import IO, Any

from templatefix.limits import Doing, Limits
from templatefix.worker.board import Kwargs, spell, words_of
from templatefix.worker.codec import typed
from templatefix.worker.frames import Closed, Reader, send


def main() -> None:
    """Answer requests until standard input is closed. Never returns."""
    code = 1
    try:
        _live()
        code = 0
    finally:
        os._exit(code)


def _live() -> None:
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # what anything prints is no answer
    with open(os.devnull, "r+b") as null:
        # Libraries ask what standard input is, which blocks on Windows while a thread reads it.
        os.dup2(null.fileno(), 0)
        reader = Reader(requests)
        with contextlib.suppress(Closed):
            limits = typed(Limits, reader.receive()["limits"])

            from templatefix.worker.child import serve

            send(answers, {"pid": os.getpid()})
            serve(_Requests(reader).take, answers, _Teller(answers, limits, null), limits)


class _Teller:
    """Sends word of each step."""

    def __init__(self, answers: int, limits: Limits, null: IO[bytes]) -> None:
        self._answers = answers
        self._limits = limits
        self._null = null

    def begin(self, doing: Doing, scenario: str | None, kwargs: Kwargs, turn: int | None) -> None:
        # The parent, which is to kill us long before, must be gone.
        faulthandler.dump_traceback_later(self._limits.longest, exit=True, file=self._null)
        send(self._answers, {"step": words_of(doing, scenario, spell(kwargs), turn)})

    def end(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        send(self._answers, {"step": None})


class _Requests:
    """Requests as they come. A thread waits for them, and ends the process with its parent."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._came = queue.SimpleQueue[dict[str, Any]]()
        threading.Thread(target=self._read, daemon=True).start()

    def take(self) -> dict[str, Any]:
        request = self._came.get()
        lent = request.pop("input", None)
        if lent is not None:
            descriptor = os.open(lent, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            os.dup2(descriptor, 0)
            os.close(descriptor)
        return request

    def _read(self) -> None:
        try:
            while True:
                self._came.put(self._reader.receive())
        finally:
            os._exit(0)
