"""The parent's side: asks the child, keeps the wall clock, and puts another in a dead one's place.

Where there is no fork (Windows) the work is done in this process, and nothing is limited.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from templatefix import api
from templatefix.checking.limited import CODE, HINT, words
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault, Report
from templatefix.limits import Kind, Limits, Overrun, limits_memory
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.worker import work
from templatefix.worker.codec import plain, typed
from templatefix.worker.frames import Closed
from templatefix.worker.job import Job, Outcome
from templatefix.worker.process import Process
from templatefix.worker.resident import Watch
from templatefix.worker.unfinished import About, unfinished

if TYPE_CHECKING:  # a check imports nothing of the patcher
    from templatefix.findings.repair import RepairReport
    from templatefix.findings.survey import Surveyed
    from templatefix.patching.repair import PatchOptions
    from templatefix.worker.surveying import SurveyJob

R = TypeVar("R")

#: A child that hears no signal is killed after this many times the soft limit, and a bit: on a
#: machine with much to do, a second of the processor takes longer than one.
_FACTOR, _BIT = 3.0, 2.0

#: What our own code may take between two steps of a template: the same for its analysis, with room
#: for the loading of a tokenizer.
_BETWEEN, _LEAST = 12.0, 20.0

#: How often the board is looked at, in seconds.
LOOK = 0.2

_REPORT_IT = "report it, with the template, if it comes again"


@dataclass
class _Course:
    """How far the child has come."""

    bounded: bool
    template: About | None = None
    #: What the board showed last, and since when.
    shown: tuple[int, bool] = (-1, False)
    since: float = 0.0


class _Killed(Exception):
    """The template had the child killed."""

    def __init__(self, overrun: Overrun) -> None:
        super().__init__(words(overrun))
        self.overrun = overrun


class _Died(Exception):
    """The child is dead, or its work is, for another reason."""


class _Gone(Exception):
    """The child ended by itself, which another may not; ``why`` if it does."""

    def __init__(self, why: _Killed | _Died) -> None:
        super().__init__(str(why))
        self.why = why


class Worker:
    """A child process to work in, for the length of a ``with`` block.

    ``limits`` are for each step of a template; what does not heed them is killed.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._child = Process(limits)
        self._watch = None if limits_memory() else Watch(limits.megabytes)

    def __enter__(self) -> Worker:
        if hasattr(os, "fork"):
            self._child.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._child.stop()

    @property
    def pid(self) -> int | None:
        """The child that is there now."""
        return self._child.pid

    @property
    def descriptor(self) -> int:
        """What can be read when there is something to go on with."""
        return self._child.reader.descriptor

    def wait(self) -> None:
        """Until there is something to go on with, or it is time to look at the child."""
        if self._child.pid is not None:
            self._child.reader.wait(LOOK)

    def check(self, job: Job) -> Iterator[Report]:
        """The reports of a target, each as soon as it is made; at least one.

        A template that has the child killed has a report that says so, and those after it have
        theirs. What a user can cause is a report with a fault, never an exception.
        """
        for outcome in self.steps(job):
            if outcome is None:
                self.wait()
            elif outcome.report is not None:
                yield outcome.report

    def steps(self, job: Job) -> Iterator[Outcome | None]:
        """The outcomes of a job, and None wherever there is nothing to do but to wait.

        A template whose child is gone is begun again in another, once.
        """
        if not hasattr(os, "fork"):
            told: list[Outcome] = []
            work.check(job, told.append)
            yield from told
            return
        self._child.has_server = self._child.has_server or job.server is not None

        def value(message: Mapping[str, Any]) -> Outcome:
            return typed(Outcome, message["outcome"])

        def failed(about: About | None, why: Fault | Overrun) -> Outcome:
            report = unfinished(job, about, why)
            return Outcome(report, None if about is None else about.content)

        request = {"do": "check", "job": plain(job)}
        yield from self._each(request, job.target, job.bounded, value, failed)

    def survey_steps(self, job: SurveyJob) -> Iterator[Surveyed | None]:
        """What the templates of a target come to, as :meth:`steps` has it."""
        from templatefix.worker import surveying

        if not hasattr(os, "fork"):
            told: list[Surveyed] = []
            surveying.survey(job, told.append)
            yield from told
            return

        def value(message: Mapping[str, Any]) -> Surveyed:
            return typed(surveying.Surveyed, message["outcome"])

        def failed(about: About | None, why: Fault | Overrun) -> Surveyed:
            return surveying.unfinished(job, about, why)

        request = {"do": "survey", "job": plain(job)}
        yield from self._each(request, job.target, True, value, failed)

    def _each(
        self,
        request: Mapping[str, Any],
        target: str,
        bounded: bool,
        value: Callable[[Mapping[str, Any]], R],
        failed: Callable[[About | None, Fault | Overrun], R],
    ) -> Iterator[R | None]:
        """The values of a target's templates, and None to wait; every template has one."""
        templates = errors = 0
        again = (-1, -1)
        while True:
            course = _Course(bounded)
            asked = {**request, "templates": templates, "errors": errors}
            try:
                for message in self._ask(asked, course):
                    if message is None:
                        yield None
                        continue
                    templates += bool(message["of_template"])
                    errors += not message["of_template"]
                    course.template = None
                    yield value(message)
                return
            except TargetError as error:
                about = "" if error.target == target else f"{error.target}: "
                yield failed(course.template, Fault(error.code, about + error.message, error.hint))
                return
            except (_Killed, _Died, _Gone) as fault:
                if isinstance(fault, _Gone) and again != (templates, errors):
                    again = templates, errors
                    continue
                why = fault.why if isinstance(fault, _Gone) else fault
                if isinstance(why, _Killed):
                    yield failed(course.template, why.overrun)
                else:
                    yield failed(course.template, Fault("TF901", str(why), _REPORT_IT))
            if course.template is None:
                return
            templates += 1

    def the_template(
        self, target: str, source: SourceOptions, given: str | None = None
    ) -> ChatTemplate:
        """``api.the_template``, in the child; ``given`` as in :class:`Job`."""
        if not hasattr(os, "fork"):
            return api.the_template(target, source, work.stream(given))
        request = {"do": "template", "target": target, "source": plain(source), "given": given}
        return typed(ChatTemplate, self._value(request, target))

    def patch(self, template: ChatTemplate, options: PatchOptions) -> RepairReport:
        """``api.patch_template``, in the child."""
        from templatefix.findings.repair import RepairReport

        if not hasattr(os, "fork"):
            return api.patch_template(template, options)
        request = {"do": "patch", "template": plain(template), "options": plain(options)}
        return typed(RepairReport, self._value(request, template.display, bounded=True))

    def ready_for(self, target: str, source: SourceOptions) -> list[str]:
        """The paths of the ready templates that fit a target, found in the child."""
        if not hasattr(os, "fork"):
            return work.ready_for(target, source)
        request = {"do": "ready", "target": target, "source": plain(source)}
        return typed(list[str], self._value(request, target))

    def record(
        self, name: str, targets: Mapping[str, str], source: SourceOptions, max_examples: int
    ) -> str:
        """``recording.recorded``, in the child."""
        from templatefix.worker.recording import recorded

        if not hasattr(os, "fork"):
            return recorded(name, targets, source, max_examples)
        request = {
            "do": "record",
            "name": name,
            "targets": dict(targets),
            "source": plain(source),
            "max_examples": max_examples,
        }
        return typed(str, self._value(request, name))

    def _value(self, request: Mapping[str, Any], target: str, *, bounded: bool = False) -> Any:
        """The one value of a request. Raises ``TargetError``."""
        try:
            try:
                return self._only(request, target, bounded)
            except _Gone:
                return self._only(request, target, bounded)
        except _Gone as gone:
            why: Exception = gone.why
        except (_Killed, _Died) as fault:
            why = fault
        if isinstance(why, _Killed):
            raise TargetError(target, str(why), HINT, CODE)
        raise TargetError(target, str(why), _REPORT_IT)

    def _only(self, request: Mapping[str, Any], target: str, bounded: bool) -> Any:
        value = None
        course = _Course(bounded, About(target, target, None, "") if bounded else None)
        for message in self._ask(request, course):
            if message is None:
                self.wait()
            elif "value" in message:
                value = message["value"]
        return value

    def _ask(self, request: Mapping[str, Any], course: _Course) -> Iterator[dict[str, Any] | None]:
        """What the child answers, up to its last word, which is left out; None to wait for more.

        Raises ``TargetError``, ``_Killed``, ``_Died`` or ``_Gone``.
        """
        try:
            self._child.ask(request)
            while True:
                message = self._child.reader.take()
                if message is None:
                    if self._is_late(course):
                        self._child.stop()
                        raise _Killed(self._overrun(course))
                    if self._is_large(course):
                        self._child.stop()
                        raise _Killed(self._described("memory", self._too_much))
                    yield None
                    continue
                # Silence is counted from the last message, too.
                course.shown = (-1, False)
                if "done" in message:
                    return
                if "fault" in message:
                    raise TargetError(**message["fault"])
                if "bug" in message:
                    raise _Died(f"templatefix fails on it: {message['bug']}")
                if "memory" in message:
                    self._child.stop()
                    raise _Killed(self._described("memory", self._too_much))
                if "begin" in message:
                    course.template = typed(About, message["begin"])
                else:
                    yield message
        except (Closed, OSError):
            raise _Gone(self._end()) from None

    def _is_late(self, course: _Course) -> bool:
        """Whether the child does the same thing for too long."""
        now, shown = time.monotonic(), self._child.board.look()
        if shown != course.shown:
            course.shown, course.since = shown, now
            return False
        running = shown[1]
        if running:
            return now - course.since > _FACTOR * self.limits.seconds + _BIT
        if course.template is None or not course.bounded:
            return False  # what is obtained has time limits of its own
        return now - course.since > self._between

    def _is_large(self, course: _Course) -> bool:
        if self._watch is None or self._child.pid is None:
            return False
        return self._watch.exceeds(self._child.pid, course.shown[1])

    @property
    def _too_much(self) -> str:
        return f"takes more than {self.limits.megabytes} MB"

    @property
    def _between(self) -> float:
        return max(_LEAST, _BETWEEN * self.limits.seconds)

    def _overrun(self, course: _Course) -> Overrun:
        if course.shown[1]:
            return self._described("time", f"takes more than {self.limits.seconds:g} s")
        return self._described("time", f"is followed by work of more than {self._between:g} s")

    def _described(self, kind: Kind, what: str) -> Overrun:
        step = self._child.board.step()
        scenario, kwargs, turn = (step.get(name) for name in ("scenario", "kwargs", "turn"))
        return Overrun(kind, step["doing"], what, None, scenario, kwargs, turn)

    def _end(self) -> _Killed | _Died:
        """Why the child hung up."""
        status = self._child.status()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = signal.Signals(number).name
            if number == signal.SIGXCPU:
                return _Killed(self._described("time", "is part of what takes too long in all"))
            if self._child.board.look()[1] and number in (signal.SIGKILL, signal.SIGABRT):
                # The system's own want of memory, or a library's.
                return _Killed(self._described("memory", f"ended by {name}"))
            return _Died(f"the process that checks it was ended by {name}")
        return _Died(f"the process that checks it ended with code {os.WEXITSTATUS(status)}")
