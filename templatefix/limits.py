"""What a template's own code may take while it is parsed, compiled or rendered.

Limits hold where somebody has set them with :func:`limited`: the child process in which the command
line does all the work on a template (``templatefix/worker``), or a program of its own that can
spare SIGPROF. Elsewhere nothing is limited and nothing costs anything.

They are soft: each raises in the middle of the template's code, so that one run is set aside and
all others are made. Code that never comes back to the interpreter, such as a huge power, hears of
no signal; the worker kills that. So it does where there are no interval timers, as on Windows: time
is limited there between two steps only.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from math import inf
from time import process_time
from types import FrameType, TracebackType
from typing import Any, Literal, Protocol

Kind = Literal["time", "memory", "output"]
Doing = Literal["parsing", "compiling", "rendering"]

#: A template may take this many times the limit of one step in all its steps together: one that
#: stays just below the limit in each of hundreds of renderings would take an hour.
STEPS = 12

#: ... and its renderings may print this many times what one of them may: texts and their tokens are
#: kept until the template is done.
TEXTS = 64

#: After each step that ran out of time the next one gets half as much, down to this part.
_LEAST = 1 / 16

#: After so many steps, and after a text of so many characters, the memory in use is looked at anew:
#: what is kept of others does not take much.
_STEPS_A_LOOK, _LARGE = 16, 100_000

#: So many pieces of a printed text are made before their characters are counted.
_BATCH = 64

#: Whether an alarm can be set in processor time.
_TIMERS = hasattr(signal, "setitimer")

#: Seconds after which the alarm is given again: the first may fall into code that swallows it.
_AGAIN = 0.2

#: ... and where it has fallen into a callback of the garbage collector, which then has to wait.
_SOON = 0.001

#: The clock that looks after steps ticks this many times in the time that one of them has, and as
#: often as the alarm is given again at least. One that was set for each step would take longer
#: than many of them do.
_TICKS = 10


@dataclass(frozen=True)
class Limits:
    """``seconds`` of processor time and ``megabytes`` of memory for one step (a parse, a
    compilation, a rendering), ``characters`` for the text that a rendering prints.

    What all steps of a template take together has limits as well: see :data:`STEPS` and
    :data:`TEXTS`.
    """

    seconds: float = 10.0
    megabytes: int = 1024
    characters: int = 4_000_000

    @property
    def longest(self) -> float:
        """Seconds on the clock that no step takes which the limit of time can end.

        On a machine with much to do, a second of the processor takes longer than one.
        """
        return 3 * self.seconds + 2


@dataclass(frozen=True)
class Overrun:
    """A limit that was hit: which one, in what, and for which request.

    ``line`` is the template's, 1-based; ``turn`` is the request, 1-based.
    """

    kind: Kind
    doing: Doing
    words: str
    line: int | None = None
    scenario: str | None = None
    kwargs: Mapping[str, Any] | None = None
    turn: int | None = None


class Exceeded(BaseException):
    """A limit was hit. No ``Exception``, so that no code on the way takes it for one of its own."""

    def __init__(self, kind: Kind, words: str) -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words


class Listener(Protocol):
    """Who is told of every step."""

    def begin(
        self,
        doing: Doing,
        scenario: str | None,
        kwargs: Mapping[str, Any] | None,
        turn: int | None,
    ) -> None:
        """A step begins."""

    def end(self) -> None:
        """It has ended."""


class Guard:
    """The limits that hold now, and what has hit them."""

    def __init__(self, limits: Limits, listener: Listener | None = None) -> None:
        self.limits = limits
        self.overruns: list[Overrun] = []
        self.scenario: str | None = None
        self._listener = listener
        self._seconds = limits.seconds
        self._spent = 0.0
        self._printed = 0
        self._most_seconds: float = STEPS * limits.seconds
        self._most_characters: float = TEXTS * limits.characters
        self._begun = 0.0
        self._end = 0.0
        self._armed = False
        self._tick: float | None = None
        self._without_collector = False
        self._memory = _Memory(limits.megabytes)

    def renew(self, *, bounded: bool = True) -> None:
        """Forget one template, for another. ``bounded``: all its steps together have a limit."""
        self.overruns = []
        self._most_seconds = STEPS * self.limits.seconds if bounded else inf
        self._most_characters = TEXTS * self.limits.characters if bounded else inf
        self.scenario = None
        self._seconds = self.limits.seconds
        self._spent = 0.0
        self._printed = 0
        self._memory.look()

    def begin(self, step: Step) -> None:
        if self._spent > self._most_seconds:
            raise Exceeded("time", f"takes more than {self._most_seconds:g} s in all")
        if self._printed > self._most_characters and step.doing == "rendering":
            raise Exceeded("output", f"prints more than {self._printed} characters in all")
        if self._listener is not None:
            self._listener.begin(step.doing, self.scenario, step.kwargs, step.turn)
        memory = self._memory
        if not memory.left:
            memory.draw_in()
        memory.left -= 1
        memory.set_to(memory.within)
        self._begun = process_time()
        self._end = self._begun + self._seconds
        self._armed = True
        if _TIMERS and self._tick is None:
            self._tick = min(self._seconds / _TICKS, _AGAIN)
            signal.setitimer(signal.ITIMER_PROF, self._tick, self._tick)

    def end(self) -> None:
        self._armed = False
        if self._without_collector:
            self._without_collector = False
            gc.enable()
        self._memory.set_to(self._memory.before)
        self._spent += process_time() - self._begun
        if self._listener is not None:
            self._listener.end()

    def ring(self, number: int, frame: FrameType | None) -> None:
        """The clock's tick: the alarm, where a step has had its time."""
        if not self._armed:
            self.rest()
        elif process_time() >= self._end and (frame is None or frame.f_code not in _ENDING):
            if _is_in_collection(frame):
                # Nothing that is raised there is heard of. A step that has the collector at work
                # most of the time would be met there by tick after tick.
                self._without_collector = self._without_collector or gc.isenabled()
                gc.disable()
                signal.setitimer(signal.ITIMER_PROF, _SOON, self._tick or _AGAIN)
                return
            self._end = process_time() + _AGAIN
            raise Exceeded("time", f"takes more than {self._seconds:g} s")

    def rest(self) -> None:
        """Stop the clock until the next step begins."""
        if self._tick is not None:
            self._tick = None
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    def collect(self, pieces: Iterable[str]) -> list[str]:
        return [piece for batch, _ in self._batches(pieces) for piece in batch]

    def join(self, pieces: Iterable[str]) -> str:
        return "".join([text for _, text in self._batches(pieces)])

    def _batches(self, pieces: Iterable[str]) -> Iterator[tuple[list[str], str]]:
        """Some pieces after others, and what they are together."""
        left = most = self.limits.characters
        rest = iter(pieces)
        more = True
        while more:
            batch = list(islice(rest, _BATCH))
            text = "".join(batch)
            left -= len(text)
            if left < 0:
                raise Exceeded("output", f"prints more than {most} characters")
            yield batch, text
            more = len(batch) == _BATCH
        self._printed += most - left
        if most - left > _LARGE:
            self._memory.look()

    def note(self, step: Step, fault: Exceeded, line: int | None) -> Overrun:
        overrun = Overrun(
            fault.kind, step.doing, fault.words, line, self.scenario, step.kwargs, step.turn
        )
        if fault.kind == "time":
            self._seconds = max(_LEAST * self.limits.seconds, self._seconds / 2)
            self.rest()  # it ticks faster in less time
        self.overruns.append(overrun)
        return overrun


def _is_in_collection(frame: FrameType | None) -> bool:
    """Whether a frame belongs to what the garbage collector calls (Hypothesis has it call)."""
    called = {getattr(each, "__code__", None) for each in gc.callbacks}
    while called and frame is not None:
        if frame.f_code in called:
            return True
        frame = frame.f_back
    return False


#: Where Linux says how much memory a process has in use.
_IN_USE = "/proc/self/statm"


class _Memory:
    """RLIMIT_AS, drawn in for the length of a step to what is in use and the limit above it.

    ``set_to`` sets it to ``within`` when a step begins, and to ``before`` when it ends; ``left``
    are the steps until what is in use is looked at anew. Where the system does not say what is in
    use (it does on Linux), nothing is limited.
    """

    def __init__(self, megabytes: int) -> None:
        self._more = megabytes << 20
        self._statm: int | None = None
        self.left = 0
        self.before = self.within = (-1, -1)
        self.set_to: Callable[[tuple[int, int]], None] = lambda limit: None
        try:
            import resource

            self._statm = os.open(_IN_USE, os.O_RDONLY | os.O_CLOEXEC)
        except (ImportError, OSError):
            return
        self._page = resource.getpagesize()
        self._resource = resource
        self.set_to = partial(resource.setrlimit, resource.RLIMIT_AS)

    def look(self) -> None:
        """Let the next step see what is in use, and what limit the process has between steps."""
        self.left = 0

    def draw_in(self) -> None:
        """See what is in use, and how far that lets the next steps go."""
        self.left = _STEPS_A_LOOK
        if self._statm is None:
            return
        self.before = soft, hard = self._resource.getrlimit(self._resource.RLIMIT_AS)
        used = int(os.pread(self._statm, 32, 0).split()[0]) * self._page
        wanted = used + self._more
        is_less = soft == self._resource.RLIM_INFINITY or wanted < soft
        self.within = (wanted, hard) if is_less else self.before

    def close(self) -> None:
        if self._statm is not None:
            os.close(self._statm)


def limits_memory() -> bool:
    """Whether the memory of a step is limited here by the system itself."""
    return find_spec("resource") is not None and os.path.exists(_IN_USE)


_guard: Guard | None = None


@contextmanager
def limited(limits: Limits, listener: Listener | None = None) -> Iterator[Guard]:
    """Set limits for this process, until the block is left.

    Needs the main thread; raises ``RuntimeError`` elsewhere.
    """
    global _guard
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("limits can be set in the main thread only")
    guard, outside = Guard(limits, listener), _guard
    if outside is not None:
        outside.rest()
    before = signal.signal(signal.SIGPROF, guard.ring) if _TIMERS else None
    _guard = guard
    try:
        yield guard
    finally:
        _guard = outside
        if _TIMERS:
            guard.rest()
            signal.signal(signal.SIGPROF, before)
        guard._memory.close()


class Step:
    """A stretch of the template's own code, under the limits that are set: a context manager.

    What hits a limit leaves it as :class:`Exceeded`.
    """

    def __init__(
        self, doing: Doing, kwargs: Mapping[str, Any] | None = None, turn: int | None = None
    ) -> None:
        self.doing = doing
        self.kwargs = kwargs
        self.turn = turn
        self._guard = _guard

    def __enter__(self) -> Step:
        if self._guard is not None:
            self._guard.begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._guard is not None:
            self._guard.end()
            if fault is not None and isinstance(fault, MemoryError):
                words = f"takes more than {self._guard.limits.megabytes} MB"
                raise Exceeded("memory", words).with_traceback(traceback) from None

    def note(self, fault: Exceeded, line: int | None = None) -> str:
        """Remember an overrun of this step; returns it in words."""
        if self._guard is not None:
            self._guard.note(self, fault, line)
        return f"{self.doing} {fault.words}"


#: Where an alarm would come too late, and keep a step from being ended.
_ENDING = frozenset({Step.__exit__.__code__, Guard.end.__code__})


def collected(pieces: Iterable[str]) -> Iterable[str]:
    """The pieces of a printed text, if there are not too many characters in them."""
    return pieces if _guard is None else _guard.collect(pieces)


def joined(pieces: Iterable[str]) -> str:
    """The printed text that pieces make up, if there are not too many characters in it."""
    return "".join(pieces) if _guard is None else _guard.join(pieces)


class Scene:
    """Says which conversation the steps in its block belong to: a context manager."""

    def __init__(self, scenario: str) -> None:
        self._guard = _guard
        self._scenario: str | None = scenario

    def __enter__(self) -> None:
        self._swap()

    def __exit__(self, *fault: object) -> None:
        self._swap()

    def _swap(self) -> None:
        guard = self._guard
        if guard is not None:
            self._scenario, guard.scenario = guard.scenario, self._scenario


def overruns() -> tuple[Overrun, ...]:
    """What has hit a limit since the template was begun."""
    return () if _guard is None else tuple(_guard.overruns)
