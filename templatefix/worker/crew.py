"""Several children at work on many targets, driven from one process without threads.

What comes out is in the order of what goes in and the same whatever the size of the crew.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, TypeVar

from templatefix.limits import Limits
from templatefix.worker.job import Job, Outcome
from templatefix.worker.parent import LOOK, Worker

J = TypeVar("J")
R = TypeVar("R")

#: How far the crew may run ahead of a target that takes long, in targets for each child.
_AHEAD = 256


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


Tick = Callable[[], None]


def nothing() -> None:
    """What is done several times a second where nobody asks for more."""


@dataclass
class _Errand(Generic[R]):
    """A worker's job: its place among all, its steps, and what it came to so far."""

    number: int
    worker: Worker
    steps: Iterator[R | None]
    found: list[R] = field(default_factory=list)

    def go_on(self) -> bool:
        """Until there is nothing to do but to wait; False when the job is done."""
        for each in self.steps:
            if each is None:
                return True
            self.found.append(each)
        return False


class Crew:
    """``size`` workers for the length of a ``with`` block."""

    def __init__(self, limits: Limits, size: int) -> None:
        self._workers = [Worker(limits) for _ in range(size if hasattr(os, "fork") else 1)]
        self._stack = ExitStack()

    def __enter__(self) -> Crew:
        with ExitStack() as stack:
            for worker in self._workers:
                stack.enter_context(worker)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, fault, traceback)

    def check(
        self, jobs: Iterable[Job | None], tick: Tick = nothing
    ) -> Generator[list[Outcome], None, None]:
        """The outcomes of each job: see :meth:`each`."""
        return self.each(jobs, Worker.steps, tick)

    def each(
        self,
        jobs: Iterable[J | None],
        steps: Callable[[Worker, J], Iterator[R | None]],
        tick: Tick = nothing,
    ) -> Generator[list[R], None, None]:
        """What each job comes to, as soon as it and all before it are done.

        ``steps`` is a method of the worker's, such as ``Worker.steps``; a job that is None comes to
        nothing. ``tick`` is called several times a second.
        """
        waiting = enumerate(jobs)
        idle, busy = list(reversed(self._workers)), list[_Errand[R]]()
        done: dict[int, list[R]] = {}
        given = told = 0
        more = True
        while more or busy or done:
            while more and idle and given < told + _AHEAD * len(self._workers):
                number, job = next(waiting, (-1, None))
                if number < 0:
                    more = False
                    break
                given = number + 1
                if job is None:
                    done[number] = []
                else:
                    worker = idle.pop()
                    busy.append(_Errand(number, worker, steps(worker, job)))
            still = []
            for errand in busy:
                if errand.go_on():
                    still.append(errand)
                else:
                    done[errand.number] = errand.found
                    idle.append(errand.worker)
            moved, busy = len(still) < len(busy), still
            while told in done:
                found = done.pop(told)
                told += 1
                yield found
            tick()
            if busy and not moved:
                _wait(busy)


def _wait(errands: Sequence[_Errand[R]]) -> None:
    """Until one of the children says something, or it is time to look at them."""
    poll = select.poll()
    for errand in errands:
        poll.register(errand.worker.descriptor, select.POLLIN)
    poll.poll(LOOK * 1000)
