"""The parent's side: asks the child, keeps the wall clock, and puts another in a dead one's place.

Where there is no fork (Windows) the work is done in this process, and nothing is limited.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from templatefix import api
from templatefix.checking import sha256
from templatefix.checking.limited import CODE, HINT, report_of, words
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault, Report
from templatefix.limits import Kind, Limits, Overrun
from templatefix.policy import policy_of
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.worker import work
from templatefix.worker.board import Board
from templatefix.worker.codec import plain, typed
from templatefix.worker.frames import Closed, Reader, send
from templatefix.worker.job import Job

if TYPE_CHECKING:  # a check imports nothing of the patcher
    from templatefix.findings.repair import RepairReport
    from templatefix.patching.repair import PatchOptions

#: A child that hears no signal is killed after this many times the soft limit, and a bit: on a
#: machine with much to do, a second of the processor takes longer than one.
_FACTOR, _BIT = 3.0, 2.0

#: What our own code may take between two steps of a template: the same for its analysis, with room
#: for the loading of a tokenizer.
_BETWEEN, _LEAST = 12.0, 20.0

#: How often the board is looked at, in seconds.
_LOOK = 0.2

#: How long a child with a server of its own has to stop it, in seconds.
_GRACE = 10.0


@dataclass
class _Course:
    """How far the child has come."""

    bounded: bool
    template: Mapping[str, Any] | None = None
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


class Worker:
    """A child process to work in, for the length of a ``with`` block.

    ``limits`` are for each step of a template; what does not heed them is killed.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._pid: int | None = None
        self._requests = -1
        self._replies = -1
        self._reader: Reader | None = None
        self._has_server = False
        self._board = Board()

    def __enter__(self) -> Worker:
        if hasattr(os, "fork"):
            self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def pid(self) -> int | None:
        """The child that is there now."""
        return self._pid

    def check(self, job: Job) -> Iterator[Report]:
        """The reports of a target, each as soon as it is made; at least one.

        A template that has the child killed has a report that says so, and those after it have
        theirs. What a user can cause is a report with a fault, never an exception.
        """
        if not hasattr(os, "fork"):
            yield from work.reports(job)
            return
        self._has_server = self._has_server or job.server is not None
        templates = errors = 0
        while True:
            course = _Course(job.bounded)
            request = {"do": "check", "job": plain(job), "templates": templates, "errors": errors}
            try:
                for message in self._ask(request, course):
                    if "report" in message:
                        templates += bool(message["of_template"])
                        errors += not message["of_template"]
                        course.template = None
                        yield typed(Report, message["report"])
                return
            except TargetError as error:
                fault = Fault(error.code, f"{error.target}: {error.message}", error.hint)
                yield _without_verdict(job, course.template, fault)
                return
            except _Killed as killed:
                yield _over_limit(job, course.template, killed.overrun)
            except _Died as died:
                hint = "report it, with the template, if it comes again"
                yield _without_verdict(job, course.template, Fault("TF901", str(died), hint))
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

    def _value(self, request: Mapping[str, Any], target: str, *, bounded: bool = False) -> Any:
        """The one value of a request. Raises ``TargetError``."""
        try:
            for message in self._ask(request, _Course(bounded, {} if bounded else None)):
                if "value" in message:
                    value = message["value"]
            return value
        except _Killed as killed:
            raise TargetError(target, str(killed), HINT, CODE) from None
        except _Died as died:
            hint = "report it, with the template, if it comes again"
            raise TargetError(target, str(died), hint) from None

    def _ask(self, request: Mapping[str, Any], course: _Course) -> Iterator[dict[str, Any]]:
        """What the child answers, up to its last word, which is left out.

        Raises ``TargetError``, ``_Killed`` or ``_Died``.
        """
        if self._pid is None:
            self._start()
        assert self._reader is not None
        try:
            send(self._requests, request)
            while True:
                message = self._reader.receive(time.monotonic() + _LOOK)
                if message is None:
                    if self._is_late(course):
                        self._stop()
                        raise _Killed(self._overrun(course))
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
                    self._stop()
                    megabytes = f"takes more than {self.limits.megabytes} MB"
                    raise _Killed(self._described("memory", megabytes))
                if "begin" in message:
                    course.template = message["begin"]
                else:
                    yield message
        except (Closed, OSError):
            raise self._died() from None

    def _is_late(self, course: _Course) -> bool:
        """Whether the child does the same thing for too long."""
        now, shown = time.monotonic(), self._board.look()
        if shown != course.shown:
            course.shown, course.since = shown, now
            return False
        running = shown[1]
        if running:
            return now - course.since > _FACTOR * self.limits.seconds + _BIT
        if course.template is None or not course.bounded:
            return False  # what is obtained has time limits of its own
        return now - course.since > self._between

    @property
    def _between(self) -> float:
        return max(_LEAST, _BETWEEN * self.limits.seconds)

    def _overrun(self, course: _Course) -> Overrun:
        if course.shown[1]:
            return self._described("time", f"takes more than {self.limits.seconds:g} s")
        return self._described("time", f"is followed by work of more than {self._between:g} s")

    def _described(self, kind: Kind, what: str) -> Overrun:
        step = self._board.step()
        scenario, kwargs, turn = (step.get(name) for name in ("scenario", "kwargs", "turn"))
        return Overrun(kind, step["doing"], what, None, scenario, kwargs, turn)

    def _died(self) -> _Killed | _Died:
        """Why the child hung up."""
        assert self._pid is not None
        _, status = os.waitpid(self._pid, 0)
        self._pid = None
        self._close()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = signal.Signals(number).name
            if number == signal.SIGXCPU:
                return _Killed(self._described("time", "is part of what takes too long in all"))
            if self._board.look()[1] and number in (signal.SIGKILL, signal.SIGABRT):
                # The system's own want of memory, or a library's.
                return _Killed(self._described("memory", f"ended by {name}"))
            return _Died(f"the process that checks it was ended by {name}")
        return _Died(f"the process that checks it ended with code {os.WEXITSTATUS(status)}")

    def _start(self) -> None:
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        parent = os.getpid()
        self._board.write(None)
        pid = os.fork()
        if pid == 0:
            os.close(self._requests)
            os.close(self._replies)
            from templatefix.worker.child import serve

            serve(requests, replies, self._board, self.limits, parent)
        self._pid = pid
        os.close(requests)
        os.close(replies)
        self._reader = Reader(self._replies)

    def _stop(self) -> None:
        pid, self._pid = self._pid, None
        if pid is None:
            return
        try:
            if self._has_server:
                os.kill(pid, signal.SIGTERM)
                end = time.monotonic() + _GRACE
                while time.monotonic() < end:
                    if os.waitpid(pid, os.WNOHANG)[0]:
                        return
                    time.sleep(0.02)
        finally:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            self._close()

    def _close(self) -> None:
        os.close(self._requests)
        os.close(self._replies)
        self._reader = None


def _over_limit(job: Job, about: Mapping[str, Any] | None, overrun: Overrun) -> Report:
    about = about or {}
    text = about.get("text")
    return report_of(
        overrun,
        target=about.get("target", job.target),
        display=about.get("display", job.target),
        name=about.get("name"),
        sha256=sha256(text) if text else None,
        source=text,
        block_size=job.options.block_size,
        policy=job.options.policy or policy_of(text or "") or "keep-reasoning",
    )


def _without_verdict(job: Job, about: Mapping[str, Any] | None, fault: Fault) -> Report:
    about = about or {}
    return Report(
        target=about.get("target", job.target),
        display=about.get("display", job.target),
        template_name=about.get("name"),
        template_sha256=None,
        tokenizer_source=None,
        tokenizer_approximate=False,
        block_size=job.options.block_size,
        policy=job.options.policy or "keep-reasoning",
        verdict="error",
        fault=fault,
    )
