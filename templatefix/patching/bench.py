"""The workbench: a template under repair, driven through every conversation that counts.

Completions are what the model writes under the original template; prompts are the candidate's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from templatefix.chat.battery import BATTERY
from templatefix.chat.conversation import Message, Scenario
from templatefix.chat.present import Unpresentable, names_developer
from templatefix.chat.server import Server, Tools
from templatefix.checking.breaks import HARMLESS, canonical_reuse
from templatefix.checking.subject import Subject, refuses_system
from templatefix.dialect.author import Unspoken
from templatefix.findings.evidence import Evidence, gather
from templatefix.patching.memory import Memory
from templatefix.patching.shapes import ODDLY_SPACED, SHAPES
from templatefix.render import Crashed, Refused, SyntaxFault
from templatefix.replay.modes import Modes
from templatefix.replay.run import Client, Comparison, Plan, Run, rerun
from templatefix.replay.sweep import without_system
from templatefix.rules import classify
from templatefix.syntax import Template, Unparsable, content_format, parse, reads_attribute

Kwargs = Mapping[str, Any]

_CLIENTS: tuple[Client, ...] = ("reasoning-dropping", "faithful")


@dataclass(frozen=True)
class Failure:
    """A comparison that a candidate does not preserve, within the policy's scope."""

    run: Run
    comparison: Comparison
    evidence: Evidence
    code: str
    detail: str


@dataclass(frozen=True)
class Trial:
    """A candidate driven through the plans. ``fault`` says why it could not be."""

    text: str
    server: Server | None
    runs: tuple[Run, ...]
    failures: tuple[Failure, ...]
    fault: str | None = None

    @property
    def comparisons(self) -> int:
        return sum(len(run.comparisons) for run in self.runs)


@dataclass(frozen=True)
class Bench:
    """The original template, its modes and the plans that a patch has to satisfy.

    ``found`` are runs that a search has come upon.
    """

    subject: Subject
    modes: Modes
    policy: str
    block_size: int
    found: tuple[Plan, ...] = ()
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)

    @cached_property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Core scenarios and hard shapes that the template takes."""
        speaks_tools = reads_attribute(self.subject.parsed, "tool_calls")
        no_system = refuses_system(self.subject.server)
        found = [s for s in (*BATTERY, *SHAPES) if s.core and (speaks_tools or not s.tools)]
        return tuple(without_system(s) if no_system else s for s in found)

    @cached_property
    def kwargs(self) -> tuple[Kwargs, ...]:
        """The modes proper: the default and what changes the generation prompt or the head."""
        effects = {setting.name: setting.effect for setting in self.modes.settings}
        return tuple(
            kwargs
            for kwargs in self.modes.sweep
            if all(effects.get(name) != "retention" for name in kwargs)
        )

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The core runs of a faithful client, and the stripped form of their answers."""
        found = []
        for kwargs in self.kwargs:
            for scenario in self.scenarios:
                found.append(Plan(scenario, kwargs))
                if scenario.name not in ODDLY_SPACED:
                    found.append(Plan(scenario, kwargs, replay="stripped"))
        return (*found, *self.found)

    @cached_property
    def original(self) -> Trial:
        """How the original fares."""
        return self.drive(self.subject.template.text, self.subject.server, self.plans)

    @cached_property
    def spoken(self) -> tuple[Plan, ...]:
        """The plans that can be replayed at all under the original."""
        return tuple(run.plan for run in self.original.runs)

    @cached_property
    def _lost_to_parsers(self) -> frozenset[tuple[str, str]]:
        """Scenarios in modes in which the parsers of this format drop what no other would keep."""
        found = set()
        for plan in self.plans:
            if plan.replay != "raw":
                continue
            try:
                run = self.replayed(plan)
            except (Unspoken, Unpresentable, Refused, Crashed):
                continue
            if any(self._code(c) == "TF301" for c in run.comparisons if not c.preserving):
                found.add((plan.scenario.name, repr(plan.kwargs)))
        return frozenset(found)

    def _code(self, comparison: Comparison) -> str:
        return classify(gather(comparison, canonical_reuse(comparison, self.subject.encoder)))[0]

    @cached_property
    def openings(self) -> tuple[tuple[tuple[Message, ...], Tools, Kwargs, str], ...]:
        """Requests that hold no answer yet, with the original's prompts for them."""
        found = []
        for kwargs in self.modes.sweep:
            for scenario in (*BATTERY, *SHAPES):
                for turn in (
                    scenario.turns[:2] if scenario.name == "whitespace" else scenario.turns[:1]
                ):
                    messages, tools = turn.new_messages, scenario.tools
                    try:
                        prompt = self.subject.server.prompt(messages, tools, kwargs)
                    except (Refused, Crashed, Unpresentable):
                        continue
                    found.append((messages, tools, kwargs, prompt))
        return tuple(found)

    @cached_property
    def stripped(self) -> tuple[tuple[tuple[Message, ...], Tools, Kwargs, str], ...]:
        """Requests whose history lacks reasoning, with the original's prompts for them.

        Under ``lossless`` they stay as they are: those of a client that drops reasoning, and those
        of a faithful one in which the original drops it.
        """
        if self.policy != "lossless":
            return ()
        runs = []
        for plan in self.spoken:
            if plan.replay != "raw":
                continue
            for client in _CLIENTS:
                one = Plan(plan.scenario, plan.kwargs, client)
                run = self.replayed(one)
                thinks = any(r.answer and r.answer.reasoning for r in run.requests)
                codes = {self._code(c) for c in run.comparisons if not c.preserving}
                if thinks and (client == "reasoning-dropping" or codes == {"TF102"}):
                    runs.append(run)
        return tuple(
            (request.messages, run.tools, request.kwargs, request.prompt)
            for run in runs
            for request in run.requests[1:]
        )

    def opens_alike(self, server: Server) -> bool:
        """Whether what has to stay as it is is rendered as the original renders it."""
        try:
            return all(
                server.prompt(messages, tools, kwargs) == prompt
                for messages, tools, kwargs, prompt in (*self.openings, *self.stripped)
            )
        except (Refused, Crashed):
            return False

    def server(self, text: str) -> Server:
        """A server of a candidate. Raises ``SyntaxFault``."""
        return self.memory.server(text, self.subject)

    def served(self, text: str) -> Server:
        """A server that reads from a candidate what messages to send, as vLLM does.

        Parsing takes as long as a few renders, so that single steps of a climb do without: a
        candidate is told apart by the contract. Raises ``SyntaxFault``.
        """
        server = self.server(text)
        form, developer = content_format(parsed(text)), names_developer(text)
        if (form, developer) == (server.content_format, server.knows_developer):
            return server
        return Server(server.renderer, form, developer)

    def replayed(self, plan: Plan) -> Run:
        """A conversation under the original.

        Raises ``Unspoken``, ``Unpresentable``, ``Refused`` or ``Crashed``.
        """
        return self.memory.run(plan, self.subject, self.block_size)

    def trial(self, text: str, plans: Sequence[Plan] | None = None) -> Trial:
        """Drive a candidate's text through the plans."""
        try:
            server = self.server(text)
        except SyntaxFault as fault:
            return Trial(text, None, (), (), f"does not compile: {fault.message}")
        return self.drive(text, server, self.spoken if plans is None else plans)

    def drive(self, text: str, server: Server, plans: Sequence[Plan]) -> Trial:
        """Replay plans on a server. What the original cannot be driven through is left out."""
        runs: list[Run] = []
        failures: list[Failure] = []
        for plan in plans:
            lost = (plan.scenario.name, repr(plan.kwargs)) in self._lost_to_parsers
            if plan.replay == "stripped" and lost:
                continue
            try:
                run = self.replayed(plan)
            except (Unspoken, Unpresentable, Refused, Crashed):
                continue
            try:
                if server is not self.subject.server:
                    run = rerun(run, server, self.subject.encoder, self.block_size)
            except (Unpresentable, Refused, Crashed) as fault:
                return Trial(text, server, tuple(runs), tuple(failures), f"{plan.id}: {fault}")
            if run.completion == "unknown":
                continue
            runs.append(run)
            failures += self._failures(run)
        return Trial(text, server, tuple(runs), tuple(failures))

    def _failures(self, run: Run) -> list[Failure]:
        found = []
        for comparison in run.comparisons:
            if comparison.preserving:
                continue
            evidence = gather(comparison, canonical_reuse(comparison, self.subject.encoder))
            code, detail, _ = classify(evidence)
            if code in HARMLESS:
                continue
            if code == "TF102" and self.policy == "lossless":
                continue
            found.append(Failure(run, comparison, evidence, code, detail))
        return found


def parsed(text: str) -> Template:
    """The tree of a candidate that compiles."""
    try:
        return parse(text)
    except Unparsable as fault:  # pragma: no cover - a candidate was compiled before
        raise SyntaxFault(fault.message, fault.line) from None
