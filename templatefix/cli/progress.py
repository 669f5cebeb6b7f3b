"""A line on stderr for work that takes longer than a second; only on a terminal.

It is drawn from an interval timer's signal: a thread would make forking a renderer unsafe.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from templatefix.report.visible import head, visible

_ERASE = "\r\x1b[K"


class Progress:
    """What is being done; ``now`` changes it."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._what = ""
        self._drawn = False

    def now(self, what: str) -> None:
        self._what = what

    def draw(self) -> None:
        seconds = int(time.monotonic() - self._started)
        sys.stderr.write(f"{_ERASE}{head(visible(self._what), 70)} ({seconds} s)")
        sys.stderr.flush()
        self._drawn = True

    def erase(self) -> None:
        if self._drawn:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
            self._drawn = False


@contextlib.contextmanager
def progress(*, wanted: bool = True) -> Iterator[Progress]:
    shown = Progress()
    if not (wanted and can_draw()):
        yield shown
        return

    def draw(number: int, frame: FrameType | None) -> None:
        # A line that cannot be drawn now is drawn a second later.
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            shown.draw()

    before = signal.signal(signal.SIGALRM, draw)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    try:
        yield shown
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        shown.erase()


def can_draw() -> bool:
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and sys.stderr is not None
        and sys.stderr.isatty()
    )
