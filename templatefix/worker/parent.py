"""The parent's side: asks the child, keeps the clock, and puts another in a dead one's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from templatefix.checking.limited import CODE, HINT
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault, Report
from templatefix.limits import Limits, Overrun
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.worker.asking import Asking, Course, Died, Gone, Killed
from templatefix.worker.codec import plain, typed
from templatefix.worker.job import Job, Outcome
from templatefix.worker.unfinished import About, unfinished

if TYPE_CHECKING:  # a check imports nothing of the patcher
    from templatefix.findings.repair import RepairReport
    from templatefix.findings.survey import Surveyed
    from templatefix.patching.repair import PatchOptions
    from templatefix.serving.assemble import ServeOptions
    from templatefix.serving.live.drive import Exchange, Rendering
    from templatefix.serving.plan import Serving
    from templatefix.worker.surveying import SurveyJob

R = TypeVar("R")

#: What a child has sent, which is read when there is time to.
Unread = Callable[[], R]

#: How often the board is looked at, in seconds.
LOOK = 0.2

_REPORT_IT = "report it, with the template, if it comes again"


class Worker:
    """A child process to work in, for the length of a ``with`` block.

    ``limits`` are for each step of a template; what does not heed them is killed.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._asking = Asking(limits)
        self._child = self._asking.child

    def __enter__(self) -> Worker:
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

    def wait(self) -> None:
        """Until there is something to go on with, or it is time to look at the child."""
        wait([self])

    def check(self, job: Job) -> Iterator[Report]:
        """The reports of a target, each as soon as it is made; at least one.

        A template that has the child killed has a report that says so, and those after it have
        theirs. What a user can cause is a report with a fault, never an exception.
        """
        for outcome in self.steps(job):
            if outcome is None:
                self.wait()
            elif (report := outcome().report) is not None:
                yield report

    def steps(self, job: Job) -> Iterator[Unread[Outcome] | None]:
        """What reads the outcomes of a job, and None where there is nothing to do but to wait.

        The first None comes when the child has been asked, whatever else it may be doing.

        A template whose child is gone is begun again in another, once.
        """
        self._child.has_server = self._child.has_server or job.server is not None
        self._child.reads_input = self._child.reads_input or job.recorded == "-"

        def value(message: Mapping[str, Any]) -> Outcome:
            return typed(Outcome, message["outcome"])

        def failed(about: About | None, why: Fault | Overrun) -> Outcome:
            report = unfinished(job, about, why)
            return Outcome(report, None if about is None else about.content)

        request = {"do": "check", "job": plain(job)}
        yield from self._each(request, job.target, job.bounded, value, failed)

    def survey_steps(self, job: SurveyJob) -> Iterator[Unread[Surveyed] | None]:
        """What the templates of a target come to, as :meth:`steps` has it."""
        from templatefix.worker import surveying

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
    ) -> Iterator[Unread[R] | None]:
        """The values of a target's templates, and None to wait; every template has one."""
        templates = errors = 0
        again = (-1, -1)
        while True:
            course = Course(bounded)
            asked = {**request, "templates": templates, "errors": errors}
            try:
                for message in self._asking.ask(asked, course):
                    if message is None:
                        yield None
                        continue
                    templates += bool(message["of_template"])
                    errors += not message["of_template"]
                    course.template = None
                    yield partial(value, message)
                return
            except TargetError as error:
                about = "" if error.target == target else f"{error.target}: "
                told = Fault(error.code, about + error.message, error.hint)
                yield partial(failed, course.template, told)
                return
            except (Killed, Died, Gone) as fault:
                if isinstance(fault, Gone) and again != (templates, errors):
                    again = templates, errors
                    continue
                why = fault.why if isinstance(fault, Gone) else fault
                if isinstance(why, Killed):
                    yield partial(failed, course.template, why.overrun)
                else:
                    yield partial(failed, course.template, Fault("TF901", str(why), _REPORT_IT))
            if course.template is None:
                return
            templates += 1

    def the_template(
        self, target: str, source: SourceOptions, given: str | None = None
    ) -> ChatTemplate:
        """``api.the_template``, in the child; ``given`` as in :class:`Job`."""
        request = {"do": "template", "target": target, "source": plain(source), "given": given}
        return typed(ChatTemplate, self._value(request, target))

    def patch(self, template: ChatTemplate, options: PatchOptions) -> RepairReport:
        """``api.patch_template``, in the child."""
        from templatefix.findings.repair import RepairReport

        request = {"do": "patch", "template": plain(template), "options": plain(options)}
        return typed(RepairReport, self._value(request, template.display, bounded=True))

    def serve(
        self,
        target: str,
        source: SourceOptions,
        options: ServeOptions,
        model: str | None = None,
        given: str | None = None,
    ) -> Serving:
        """``api.serve``, in the child; the options go together. ``given`` as in :class:`Job`."""
        from templatefix.serving.plan import Serving

        request = {
            "do": "serve",
            "target": target,
            "source": plain(source),
            "options": plain(options),
            "model": model,
            "given": given,
        }
        return typed(Serving, self._value(request, target))

    def twin(self, template: ChatTemplate) -> Rendering:
        """A ``serving.live.twin.Twin`` that renders in the child. Raises ``TargetError``."""

        def ask(exchange: Exchange | None) -> list[int] | None:
            request = {"do": "twin", "template": plain(template), "exchange": plain(exchange)}
            found = self._value(request, template.display, bounded=True)
            return None if found is None else typed(list[int], found)

        ask(None)  # whether it can make one
        return ask

    def ready_for(self, target: str, source: SourceOptions) -> list[str]:
        """The paths of the ready templates that fit a target, found in the child."""
        request = {"do": "ready", "target": target, "source": plain(source)}
        return typed(list[str], self._value(request, target))

    def record(
        self, name: str, targets: Mapping[str, str], source: SourceOptions, max_examples: int
    ) -> str:
        """``recording.recorded``, in the child."""
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
            except Gone:
                return self._only(request, target, bounded)
        except Gone as gone:
            why: Exception = gone.why
        except (Killed, Died) as fault:
            why = fault
        if isinstance(why, Killed):
            raise TargetError(target, str(why), HINT, CODE)
        raise TargetError(target, str(why), _REPORT_IT)

    def _only(self, request: Mapping[str, Any], target: str, bounded: bool) -> Any:
        value = None
        course = Course(bounded, About(target, target, None, "") if bounded else None)
        for message in self._asking.ask(request, course):
            if message is None:
                self.wait()
            elif "value" in message:
                value = message["value"]
        return value


def wait(workers: Sequence[Worker]) -> None:
    """Until one of the workers has something to go on with, or it is time to look at them."""
    children = [each._child for each in workers]
    children[0].wait(children, LOOK)
