"""A candidate under examination: the same conversations, under the original and under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from templatefix.chat.battery import BATTERY
from templatefix.chat.conversation import Message, Scenario
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Server, Tools
from templatefix.checking.subject import refuses_system
from templatefix.dialect.author import Unspoken
from templatefix.patching.bench import Bench, Failure, Kwargs, Trial
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused
from templatefix.replay.run import Plan, Request, Run, replay
from templatefix.replay.sweep import without_system
from templatefix.syntax import reads_attribute


@dataclass(frozen=True)
class Outcome:
    """A rendering: its text, or the words of a refusal, or how it failed."""

    text: str | None = None
    refusal: str | None = None
    crash: str | None = None

    def __str__(self) -> str:
        if self.refusal is not None:
            return f"raises {self.refusal!r}"
        return f"fails: {self.crash}" if self.crash is not None else "renders"


def outcome(render: Callable[[], str]) -> Outcome:
    """What comes of a rendering. Raises ``Unpresentable``."""
    try:
        return Outcome(render())
    except Refused as refused:
        return Outcome(refusal=refused.message)
    except Crashed as crashed:
        return Outcome(crash=str(crashed))


@dataclass(frozen=True)
class Walk:
    """One conversation under the original (``before``) and under the candidate (``after``).

    Both get the same messages: what the model writes under the original. ``failures`` are the
    comparisons that the candidate does not preserve.
    """

    before: Run
    after: Run
    failures: tuple[Failure, ...]

    @property
    def plan(self) -> Plan:
        return self.before.plan

    @property
    def steps(self) -> Iterator[tuple[Request, Request]]:
        """Every request under both."""
        return zip(self.before.requests, self.after.requests, strict=True)


@dataclass(frozen=True)
class Stumble:
    """A conversation that the two templates do not agree to render."""

    plan: Plan
    message: str


@dataclass(frozen=True)
class Exam:
    """A bench and a candidate's text on it. ``fold``: it wraps the original."""

    bench: Bench
    text: str
    server: Server
    fold: bool = False

    @property
    def original(self) -> Server:
        return self.bench.subject.server

    @cached_property
    def trial(self) -> Trial:
        """The candidate in the core runs of the faithful client."""
        return self.bench.drive(self.text, self.server, self.bench.spoken)

    @cached_property
    def core_walks(self) -> tuple[Walk, ...]:
        """The core runs of the faithful client, as far as the candidate renders them."""
        failures: dict[int, list[Failure]] = {}
        for failure in self.trial.failures:
            failures.setdefault(id(failure.run), []).append(failure)
        return tuple(
            Walk(before, after, tuple(failures.get(id(after), ())))
            for before, after in zip(self.bench.original.runs, self.trial.runs, strict=False)
        )

    @cached_property
    def _edge(self) -> tuple[Walk | Stumble, ...]:
        found = (self.walk(plan) for plan in self._edge_plans())
        return tuple(each for each in found if each is not None)

    @cached_property
    def edge_walks(self) -> tuple[Walk, ...]:
        """Edge scenarios, and the conversations of a client that drops reasoning."""
        return tuple(each for each in self._edge if isinstance(each, Walk))

    @cached_property
    def stumbles(self) -> tuple[Stumble, ...]:
        """The conversations that the candidate does not render, and the original does."""
        return tuple(each for each in self._edge if isinstance(each, Stumble))

    @property
    def walks(self) -> tuple[Walk, ...]:
        return (*self.core_walks, *self.edge_walks)

    def _edge_plans(self) -> Iterator[Plan]:
        subject = self.bench.subject
        speaks_tools = reads_attribute(subject.parsed, "tool_calls")
        no_system = refuses_system(subject.server)
        edge = [s for s in BATTERY if not s.core and (speaks_tools or not s.tools)]
        for kwargs in self.bench.kwargs:
            for scenario in edge:
                scenario = without_system(scenario) if no_system else scenario
                yield Plan(scenario, kwargs, core=False)
            for scenario in self.bench.scenarios:
                if _reasons(scenario):
                    yield Plan(scenario, kwargs, "reasoning-dropping", core=False)

    def walk(self, plan: Plan) -> Walk | Stumble | None:
        """A conversation under both; None where the original cannot be driven through it."""
        try:
            before = self.bench.replayed(plan)
        except Refused as refused:
            return self._refused(plan, refused.message)
        except (Unspoken, Unpresentable, Crashed):
            return None
        if before.completion == "unknown" or _drops_nothing(before):
            return None
        trial = self.bench.drive(self.text, self.server, (plan,))
        if trial.fault is not None:
            return Stumble(plan, f"the original renders it; the candidate does not: {trial.fault}")
        return Walk(before, trial.runs[0], trial.failures)

    def _refused(self, plan: Plan, message: str) -> Stumble | None:
        """Whether the candidate refuses in the same words what the original refused."""
        subject = self.bench.subject
        try:
            replay(plan, subject.author, subject.encoder, self.bench.block_size, self.server)
        except Refused as refused:
            if refused.message == message:
                return None
            return Stumble(plan, f"raised {message!r} and now {refused.message!r}")
        except (Unspoken, Unpresentable):
            return None
        except Crashed as crashed:
            return Stumble(plan, f"raised {message!r} and now fails: {crashed}")
        return Stumble(plan, f"raised {message!r} and now renders")

    def frame_end(self, request: Request, tools: Tools, server: Server) -> int:
        """Where a request's generation prompt begins, in characters."""
        try:
            bare = server.prompt(request.messages, tools, request.kwargs, generation_prompt=False)
        except (Refused, Crashed):
            return len(request.prompt)
        return common_prefix(request.prompt, bare)


def _reasons(scenario: Scenario) -> bool:
    return any(turn.answer and turn.answer.reasoning for turn in scenario.turns)


def _drops_nothing(run: Run) -> bool:
    """Whether a client that drops reasoning got none, and sends what any other does."""
    if run.plan.client != "reasoning-dropping":
        return False
    return not any(request.answer and request.answer.reasoning for request in run.requests)


def given(messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> dict[str, Any]:
    """A conversation in the form that ``--conversation`` takes."""
    conversation: dict[str, Any] = {"messages": [dict(message) for message in messages]}
    if tools:
        conversation["tools"] = list(tools)
    if kwargs:
        conversation["chat_template_kwargs"] = dict(kwargs)
    return conversation


def replayed(run: Run, requests: int | None = None) -> Mapping[str, Any]:
    """The conversation of a run with what was generated, up to a number of requests."""
    last = run.requests[requests - 1 if requests else -1]
    conversation = given(last.messages, run.tools, last.kwargs)
    answers = [m for m in conversation["messages"] if m.get("role") == "assistant"]
    for message, request in zip(answers, run.requests, strict=False):
        if request.completion is not None and request.completion.written is not None:
            message["completion"] = request.completion.written.text
    return conversation


def difference(before: str, after: str) -> str:
    """The place at which two texts part, in a few characters of each."""
    at = common_prefix(before, after)
    lead = before[max(0, at - 20) : at]
    return f"after {lead!r} stood {before[at : at + 40]!r} and now {after[at : at + 40]!r}"
