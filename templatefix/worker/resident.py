"""A child's memory, looked at from outside: for systems that limit no process's address space.

Linux does (``templatefix.limits``); macOS takes RLIMIT_AS and lets the process go on, and Windows
has none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

#: How often is looked, in seconds; a look takes some milliseconds.
_EVERY = 0.5


class Watch:
    """Resident memory of one child after another; ``megabytes`` is for one step of a template."""

    def __init__(self, megabytes: int) -> None:
        self._more = megabytes << 20
        self._pid: int | None = None
        self._idle = 0
        self._next = 0.0

    def exceeds(self, pid: int, running: bool) -> bool:
        """Whether a step that is ``running`` has taken more than it may since it began."""
        now = time.monotonic()
        if pid == self._pid and now < self._next:
            return False
        used = resident(pid)
        if pid != self._pid or not running:
            # A child that is first seen at work began with about what we have ourselves.
            self._pid, self._idle = pid, resident(os.getpid()) if running else used
        self._next = now + _EVERY
        return running and used > self._idle + self._more


def resident(pid: int) -> int:
    """Bytes of a process's memory that are in use; 0 where nothing here says."""
    if sys.platform == "win32" or shutil.which("ps") is None:
        return _told_by_psutil(pid)
    return _told_by_ps(pid)


def _told_by_ps(pid: int) -> int:
    try:
        told = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=5,
            check=False,
        )
        return int(told.stdout) << 10
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def _told_by_psutil(pid: int) -> int:
    try:
        import psutil
    except ImportError:
        return 0
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
