"""A template as a check sees it: what it finds by single prompts, and every prompt it asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Server
from templatefix.checking import CheckOptions, Subject, prepare
from templatefix.checking.breaks import classified
from templatefix.checking.notes import Notes
from templatefix.checking.prompts import of_names, of_prompt
from templatefix.checking.runs import make_run, modes_of, plans
from templatefix.checking.search import search
from templatefix.findings.blame import Witness
from templatefix.findings.finding import Finding
from templatefix.patching.contract.c4 import Render, handed_on, served
from templatefix.patching.contract.exam import Outcome, outcome
from templatefix.patching.contract.openings import Input, odd, openings
from templatefix.patching.edits import Edit
from templatefix.render import Crashed, JinjaRenderer, Refused
from templatefix.replay.modes import Modes
from templatefix.source.template import ChatTemplate


@dataclass(frozen=True)
class Case:
    """An input and what comes of it. ``line`` is where a crash happened, 1-based."""

    input: Input
    render: Render
    outcome: Outcome
    line: int | None = None

    def under(self, server: Server) -> Outcome:
        """What comes of the same input under another template."""
        return outcome(lambda: self.render(server, self.input))


@dataclass(frozen=True)
class Proposal:
    """A change of the source that might mend a fault, and a sentence on what it does."""

    edits: tuple[Edit, ...]
    words: str


#: Whether an input may come out otherwise: its case before, and what comes of it now.
Leave = Callable[["Ground", Case, Outcome], bool]


@dataclass(frozen=True)
class Ground:
    """``findings`` are those that need no comparison of two prompts: TF201 to TF206."""

    subject: Subject
    modes: Modes
    findings: tuple[Finding, ...]

    def shown(self, code: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.code == code)

    @property
    def source(self) -> str:
        """The newline-normalised text, in which spans count."""
        return self.subject.parsed.text

    @cached_property
    def witness(self) -> Witness:
        tokens = dict(self.subject.template.special_tokens)
        return Witness(self.subject.parsed, self.subject.server, tokens)

    @cached_property
    def requests(self) -> tuple[Case, ...]:
        """What the runs of a check have asked for, answers and probes of layouts included."""
        found = []
        for messages, tools, kwargs, generation_prompt, came in self.subject.server.asked():
            one = Input(tuple(messages), tools, kwargs, generation_prompt)
            if isinstance(came, Crashed):
                found.append(Case(one, served, Outcome(crash=str(came)), came.line))
            elif isinstance(came, Refused):
                found.append(Case(one, served, Outcome(refusal=came.message)))
            else:
                found.append(Case(one, served, Outcome(came)))
        return tuple(found)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Those, and the inputs of the contract's first and fourth clause in every mode."""
        found = list(self.requests)
        for kwargs in self.modes.sweep:
            inputs: list[tuple[Input, Render]] = [(one, served) for one in openings(kwargs)]
            inputs += [(one, handed_on) for one in odd(kwargs)]
            for one, render in inputs:
                try:
                    came = Case(one, render, Outcome()).under(self.subject.server)
                except Unpresentable:
                    continue
                found.append(Case(one, render, came))
        return tuple(found)

    def server(self, text: str) -> Server:
        """A server of a changed template. Raises ``SyntaxFault``."""
        subject = self.subject
        renderer = JinjaRenderer(text, subject.template.special_tokens)
        return Server(renderer, subject.server.content_format, subject.server.knows_developer)

    def departs(self, server: Server, leave: Leave) -> Case | None:
        """The first input that a changed template treats otherwise without leave.

        What crashed before may do as it likes; what was refused is refused in the same words.
        """
        for case in self.cases:
            before = case.outcome
            if before.crash is not None:
                continue
            after = case.under(server)
            if before != after and not leave(self, case, after):
                return case
        return None


def survey(template: ChatTemplate, options: CheckOptions) -> Ground:
    """Drive a template through the runs of a check and, as ``options`` say, its search.

    Raises ``Unparsable``, ``SyntaxFault`` or ``TargetError``.
    """
    subject = prepare(template, options)
    modes = modes_of(subject, options)
    notes = Notes()
    for one in plans(subject, modes, options, None, notes):
        make_run(one, subject, options.block_size, notes)
    if options.max_examples > 0:
        # For the crashes that it adds to the notes, and for the prompts that it asks for.
        search(
            subject,
            modes,
            classified(notes.runs, subject),
            notes,
            policy="keep-reasoning",
            block_size=options.block_size,
            max_examples=options.max_examples,
            seed=options.seed,
        )
    found = (*notes.findings, *of_prompt(subject, notes), *of_names(subject, options))
    return Ground(subject, modes, found)


def again(ground: Ground, text: str, options: CheckOptions) -> Ground:
    """The ground of a changed text of the same template."""
    return survey(replace(ground.subject.template, text=text), options)


def crashes(ground: Ground) -> Iterator[Case]:
    """The requests that fail in the way which a finding of TF203 tells of."""
    kinds = {(finding.detail, finding.line) for finding in ground.shown("TF203")}
    return (case for case in ground.requests if (case.outcome.crash, case.line) in kinds)
