"""One request to a child: what it answers, and how the parent's clock and memory watch end it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from signal import Signals
from typing import Any

from templatefix.checking.limited import words
from templatefix.errors import TargetError
from templatefix.limits import Kind, Limits, Overrun, limits_memory
from templatefix.worker.codec import typed
from templatefix.worker.frames import Closed
from templatefix.worker.process import process
from templatefix.worker.resident import Watch
from templatefix.worker.unfinished import About

#: What our own code may take between two steps of a template: the same for its analysis, with room
#: for the loading of a tokenizer.
_BETWEEN, _LEAST = 12.0, 20.0


#: Bytes that a pipe takes though nobody reads from it yet, everywhere.
_ASKED_AHEAD = 4096


@dataclass
class Course:
    """How far the child has come with a request."""

    bounded: bool
    template: About | None = None
    #: What the board showed last, and since when.
    shown: tuple[int, bool] = (-1, False)
    since: float = 0.0


class Killed(Exception):
    """The template had the child killed."""

    def __init__(self, overrun: Overrun) -> None:
        super().__init__(words(overrun))
        self.overrun = overrun


class Died(Exception):
    """The child is dead, or its work is, for another reason."""


class Gone(Exception):
    """The child ended by itself, which another may not; ``why`` if it does."""

    def __init__(self, why: Killed | Died) -> None:
        super().__init__(str(why))
        self.why = why


class Asking:
    """A child that is asked for one thing after another."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.child = process(limits)
        self._answers = False
        self._watch = None if limits_memory() else Watch(limits.megabytes)

    def ask(self, request: Mapping[str, Any], course: Course) -> Iterator[dict[str, Any] | None]:
        """What the child answers, up to its last word, which is left out; None to wait for more.

        The first None comes before anything is read: so far may go who asks ahead, while the child
        answers somebody else. What is long is then only sent after it.

        Raises ``TargetError``, ``Killed``, ``Died`` or ``Gone``.
        """
        frame, lives = self.child.request(request), -1
        if not self._answers or len(frame) <= _ASKED_AHEAD:
            with suppress(OSError):  # it is gone, which whoever reads its answers will hear
                self.child.ask(frame)
                lives = self.child.lives
        yield None
        self._answers = True
        try:
            if self.child.lives != lives:
                self.child.ask(frame)
            while True:
                message = self.child.take()
                if message is None:
                    if self._is_late(course):
                        self.child.stop()
                        raise Killed(self._overrun(course))
                    if self._is_large(course):
                        self.child.stop()
                        raise Killed(self._described("memory", self._too_much))
                    yield None
                    continue
                # Silence is counted from the last message, too.
                course.shown = (-1, False)
                if "done" in message:
                    return
                if "fault" in message:
                    raise TargetError(**message["fault"])
                if "bug" in message:
                    self.child.stop()  # whatever it has been asked for beside this
                    raise Died(f"templatefix fails on it: {message['bug']}")
                if "memory" in message:
                    self.child.stop()
                    raise Killed(self._described("memory", self._too_much))
                if "begin" in message:
                    course.template = typed(About, message["begin"])
                else:
                    yield message
        except (Closed, OSError):
            raise Gone(self._end()) from None
        finally:
            self._answers = False

    def _is_late(self, course: Course) -> bool:
        """Whether the child does the same thing for too long."""
        now, shown = time.monotonic(), self.child.board.look()
        if shown != course.shown:
            course.shown, course.since = shown, now
            return False
        running = shown[1]
        if running:
            return now - course.since > self.child.patience
        if course.template is None or not course.bounded:
            return False  # what is obtained has time limits of its own
        return now - course.since > self._between

    def _is_large(self, course: Course) -> bool:
        if self._watch is None or self.child.pid is None:
            return False
        return self._watch.exceeds(self.child.pid, course.shown[1])

    @property
    def _too_much(self) -> str:
        return f"takes more than {self.limits.megabytes} MB"

    @property
    def _between(self) -> float:
        return max(_LEAST, _BETWEEN * self.limits.seconds)

    def _overrun(self, course: Course) -> Overrun:
        if course.shown[1]:
            return self._described("time", f"takes more than {self.limits.seconds:g} s")
        return self._described("time", f"is followed by work of more than {self._between:g} s")

    def _described(self, kind: Kind, what: str) -> Overrun:
        step = self.child.board.step()
        scenario, kwargs, turn = (step.get(name) for name in ("scenario", "kwargs", "turn"))
        return Overrun(kind, step["doing"], what, None, scenario, kwargs, turn)

    def _end(self) -> Killed | Died:
        """Why the child hung up."""
        code = self.child.ended()
        if code >= 0:
            return Died(f"the process that checks it ended with code {code}")
        name = Signals(-code).name
        if name == "SIGXCPU":
            return Killed(self._described("time", "is part of what takes too long in all"))
        if self.child.board.look()[1] and name in ("SIGKILL", "SIGABRT"):
            # The system's own want of memory, or a library's.
            return Killed(self._described("memory", f"ended by {name}"))
        return Died(f"the process that checks it was ended by {name}")
