"""The child: takes a request at a time, does the work under limits, and tells how it goes."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from templatefix import api
from templatefix.errors import TargetError
from templatefix.limits import Guard, Limits, Listener, limited
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.worker import work
from templatefix.worker.codec import plain, typed
from templatefix.worker.frames import Closed, send
from templatefix.worker.job import Content, Job, Outcome
from templatefix.worker.unfinished import About

if TYPE_CHECKING:  # a check imports nothing of the patcher
    from templatefix.findings.survey import Surveyed


def serve(
    take: Callable[[], Mapping[str, Any]], replies: int, listener: Listener, limits: Limits
) -> None:
    """Answer the requests that ``take`` gives until it raises ``Closed``, or nobody listens.

    ``listener`` is told of each step of a template.
    """
    # The other cores belong to other targets, and threads take address space.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with contextlib.suppress(Closed, BrokenPipeError), limited(limits, listener) as guard:
        while True:
            _answer(take(), lambda message: send(replies, message), guard)


def _last_resort(limits: Limits) -> None:
    """A bound on all that one template can take, should the parent be unable to kill us."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + 60 * limits.seconds) + 600
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def _answer(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    try:
        _DOING[request["do"]](request, say, guard)
    except TargetError as error:
        fault = {name: getattr(error, name) for name in ("target", "message", "hint", "code")}
        say({"fault": fault})
    except MemoryError:
        say({"memory": True})
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        say({"bug": _words(error)})
    except BaseException as error:
        # A tokenizer's panic derives from BaseException; the parent has one line for it.
        say({"bug": _words(error)})
    else:
        say({"done": True})


def _words(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    at = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{at}"


def _check(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    job = typed(Job, request["job"])
    course = _Course(request, say, guard, job.bounded)
    work.check(job, course.tell, course.begin)


def _survey(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    from templatefix.worker import surveying

    course = _Course(request, say, guard, bounded=True)
    surveying.survey(typed(surveying.SurveyJob, request["job"]), course.tell, course.begin)


class _Course:
    """A target's templates one after another: those that the parent has heard of are passed over,
    and it hears of each before the work on it begins."""

    def __init__(
        self,
        request: Mapping[str, Any],
        say: Callable[[Mapping[str, Any]], None],
        guard: Guard,
        bounded: bool,
    ) -> None:
        self._passed_over, self._heard = request["templates"], request["errors"]
        self._say = say
        self._guard = guard
        self._bounded = bounded
        self._templates = self._errors = 0
        self._in_one = False

    def begin(self, template: ChatTemplate, content: Content | None = None) -> bool:
        self._templates += 1
        if self._templates <= self._passed_over:
            return False
        self._in_one = True
        self._guard.renew(bounded=self._bounded)
        if self._bounded:
            _last_resort(self._guard.limits)
        about = About(template.target, template.display, template.name, template.text, content)
        self._say({"begin": plain(about)})
        return True

    def tell(self, outcome: Outcome | Surveyed) -> None:
        self._errors += not self._in_one
        if self._in_one or self._errors > self._heard:
            self._say({"outcome": plain(outcome), "of_template": self._in_one})
        self._in_one = False


def _template(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    guard.renew()
    source = typed(SourceOptions, request["source"])
    found = api.the_template(request["target"], source, work.stream(request["given"]))
    say({"value": plain(found)})


def _patch(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    from templatefix.patching.repair import PatchOptions

    guard.renew()
    template = typed(ChatTemplate, request["template"])
    say({"value": plain(api.patch_template(template, typed(PatchOptions, request["options"])))})


def _serve(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    from templatefix.serving.assemble import ServeOptions

    guard.renew()
    source = typed(SourceOptions, request["source"])
    options = typed(ServeOptions, request["options"])
    given = work.stream(request["given"])
    found = api.serve(request["target"], source, options, request["model"], given)
    say({"value": plain(found)})


def _twin(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    from templatefix.serving.live.drive import Exchange
    from templatefix.worker.twins import twin_of

    guard.renew()
    twin = twin_of(typed(ChatTemplate, request["template"]))
    exchange = request["exchange"]
    say({"value": None if exchange is None else twin(typed(Exchange, exchange))})


def _ready_for(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    guard.renew()
    source = typed(SourceOptions, request["source"])
    say({"value": work.ready_for(request["target"], source)})


def _record(
    request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], guard: Guard
) -> None:
    from templatefix.worker.recording import recorded

    guard.renew(bounded=False)  # there are many conversations, with several templates
    source = typed(SourceOptions, request["source"])
    text = recorded(request["name"], request["targets"], source, request["max_examples"])
    say({"value": text})


_DOING = {
    "check": _check,
    "survey": _survey,
    "template": _template,
    "patch": _patch,
    "serve": _serve,
    "twin": _twin,
    "ready": _ready_for,
    "record": _record,
}
