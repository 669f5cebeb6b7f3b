"""What a program has started, as Linux tells it."""

from __future__ import annotations

import time
from pathlib import Path


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    return [int(word) for word in _listed(pid).read_text().split()]


def first_child(pid: int) -> int | None:
    """Wait until a process has started another, half a minute at most; None where it has not, or
    where that cannot be seen."""
    until = time.monotonic() + 30
    while _listed(pid).exists() and time.monotonic() < until:
        if born := children(pid):
            return born[0]
        time.sleep(0.02)
    return None


def _listed(pid: int) -> Path:
    return Path(f"/proc/{pid}/task/{pid}/children")
