"""The child as a process: started, asked, killed, and told of when it is gone.

Where there is ``fork`` it is forked (``forked.py``); elsewhere, as on Windows, it is a program of
its own (``spawned.py``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from templatefix.errors import TargetError
from templatefix.limits import Limits


class Board(Protocol):
    """What the child is doing, as the parent sees it."""

    def look(self) -> tuple[int, bool]:
        """How many changes there were, and whether a step is running."""

    def step(self) -> Mapping[str, Any]:
        """The last step that was begun."""


class Process(Protocol):
    """One child at a time; ``pid`` is None while there is none.

    ``lives`` is how many were started or ended: while it stays as it is, the child is the same.
    ``patience`` is how long, in seconds, a step may show no end before it is the parent's to end.
    ``has_server``: the child may have started a server, which it needs time to stop.
    ``reads_input``: it reads our standard input.
    """

    has_server: bool
    reads_input: bool

    @property
    def lives(self) -> int: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def board(self) -> Board: ...

    @property
    def patience(self) -> float: ...

    def start(self) -> None:
        """Start a child. Raises ``TargetError`` where the system has no room for one."""

    def request(self, message: Mapping[str, Any]) -> bytes:
        """What is asked of this kind of child, as a frame."""

    def ask(self, request: bytes) -> None:
        """Send a request, to a new child where there is none. Raises ``OSError``."""

    def take(self) -> dict[str, Any] | None:
        """The next answer; None where it is not there yet. Raises ``Closed``."""

    def wait(self, those: Sequence[Process], seconds: float) -> None:
        """Until one of those, all of this kind, has an answer, or the time is over."""

    def stop(self) -> None:
        """End the child, where there is one."""

    def ended(self) -> int:
        """How a child that hung up has ended: its exit code, or the negative number of a signal."""


def no_room(error: OSError) -> TargetError:
    """What is said where no process can be started."""
    message = f"no process can be started: {error.strerror or error}"
    return TargetError("this machine", message, "end others, or allow more of them and more memory")


def process(limits: Limits) -> Process:
    """The kind of child that this system has."""
    if hasattr(os, "fork"):
        from templatefix.worker.forked import Forked

        return Forked(limits)
    from templatefix.worker.spawned import Spawned

    return Spawned(limits)
