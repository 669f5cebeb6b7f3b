"""Several children at work on many targets, driven from one process without threads.

What comes out is in the order of what goes in and the same whatever the size of the crew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, TypeVar

from templatefix.limits import Limits
from templatefix.worker.job import Job, Outcome
from templatefix.worker.parent import Unread, Worker, wait

J = TypeVar("J")
R = TypeVar("R")

#: So many targets for each child, the last, are given to children that have nothing else to do.
_LAST = 4

#: ... and among so many the longest is looked for.
_FEW = 16

#: How far the crew may run ahead of a target that takes long, in targets for each child.
_AHEAD = 256


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def size_of(job: Job) -> int:
    """The bytes of a job's file, which tell how long it takes as well as can be told before."""
    try:
        return os.stat(job.part or job.target).st_size
    except (OSError, ValueError):
        return 0


Tick = Callable[[], None]


def nothing() -> None:
    """What is done several times a second where nobody asks for more."""


class InOrder(Generic[J, R]):
    """Jobs taken one after another, and what they come to told in the same order.

    A job that is None is not taken and comes to nothing. Where there are many, the longest of the
    next few is taken first: a long one that is left for the end keeps all others waiting.
    """

    def __init__(
        self, jobs: Iterable[J | None], ahead: int, length: Callable[[J], int] = lambda job: 0
    ) -> None:
        self._jobs = enumerate(jobs)
        self._next: list[tuple[int, int, J | None]] = []
        self._length = length
        self._many = False
        self._ahead = ahead
        self._done: dict[int, list[R]] = {}
        self._given = self._told = 0

    @property
    def over(self) -> bool:
        """Whether there is no more to take or to tell."""
        return not (self.has(1) or self._done)

    def has(self, many: int) -> bool:
        """Whether so many are yet to be taken."""
        while len(self._next) < many and (another := next(self._jobs, None)) is not None:
            number, job = another
            self._next.append((number, 0 if job is None else self._length(job), job))
        return len(self._next) >= many

    def take(self) -> tuple[int, J] | None:
        """The next job and its number; None where there is none yet, or no more."""
        while self._given < self._told + self._ahead and self.has(1):
            number, _, job = self._next.pop(self._choice())
            self._given += 1
            if job is not None:
                return number, job
            self._done[number] = []
        return None

    def _choice(self) -> int:
        """Which of the next jobs is to be taken.

        The first has waited long after a few others, and no longer than there may be any.
        """
        self._many = self.has(_FEW) or self._many
        overtaken = self._given - self._next[0][0]
        is_last = self._given + 1 == self._told + self._ahead
        if not self._many or overtaken >= _FEW or is_last:
            return 0
        return max(range(min(_FEW, len(self._next))), key=lambda each: self._next[each][1])

    def put(self, number: int, found: list[R]) -> None:
        """What a job has come to."""
        self._done[number] = found

    def told(self) -> Iterator[list[R]]:
        """What can be told now: of each job that is done, with all before it."""
        while self._told in self._done:
            self._told += 1
            yield self._done.pop(self._told - 1)


@dataclass
class _Errand(Generic[R]):
    """A worker's job: its place among all, its steps, and what it came to so far."""

    number: int
    worker: Worker
    steps: Iterator[Unread[R] | None]
    found: list[Unread[R]] = field(default_factory=list)
    #: The job that the worker has next, of which it has been told.
    following: _Errand[R] | None = None

    def ask(self) -> None:
        """Tell the worker of the job, whatever else it may be doing."""
        first = next(self.steps, None)
        if first is not None:
            self.found.append(first)

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
        self._workers = [Worker(limits) for _ in range(size)]
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
        return self.each(jobs, Worker.steps, tick, size_of)

    def each(
        self,
        jobs: Iterable[J | None],
        steps: Callable[[Worker, J], Iterator[Unread[R] | None]],
        tick: Tick = nothing,
        length: Callable[[J], int] = lambda job: 0,
    ) -> Generator[list[R], None, None]:
        """What each job comes to, as soon as it and all before it are done.

        ``steps`` is a method of the worker's, such as ``Worker.steps``; a job that is None comes to
        nothing. ``tick`` is called several times a second, and ``length`` guesses at how long a job
        takes beside others.
        """
        order = InOrder[J, Unread[R]](jobs, _AHEAD * len(self._workers), length)
        idle, busy = list(reversed(self._workers)), list[_Errand[R]]()

        def taken(worker: Worker) -> _Errand[R] | None:
            """What the worker is to do next; None where there is nothing yet."""
            if (next_one := order.take()) is None:
                return None
            number, job = next_one
            errand = _Errand(number, worker, steps(worker, job))
            errand.ask()
            return errand

        while busy or not order.over:
            going, busy, moved = busy, [], False
            while True:
                if going:
                    errand = going.pop()
                elif idle and (begun := taken(idle[-1])) is not None:
                    errand = begun
                    idle.pop()
                else:
                    break
                if errand.go_on():
                    busy.append(errand)
                    # A worker that has its next target goes on without us. The last ones are for
                    # those who come first.
                    if errand.following is None and order.has(_LAST * len(self._workers)):
                        errand.following = taken(errand.worker)
                    continue
                order.put(errand.number, errand.found)
                moved = True
                if errand.following is not None:
                    going.append(errand.following)
                else:
                    idle.append(errand.worker)
            # Read only now, when nobody is idle who has something to do.
            for found in order.told():
                yield [read() for read in found]
            tick()
            if busy and not moved:
                wait([each.worker for each in busy])
