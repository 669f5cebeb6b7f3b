"""Measuring a ready template against an encoder: a format whose only renderer is Python code.

There is no published template to hold the contract against. What it asks of the template alone is
asked of the template alone; that nothing else changes is said by the encoder's own prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from templatefix.chat.conversation import Scenario
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Server
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import prepare
from templatefix.errors import TargetError
from templatefix.findings.ready import Agreement, EncoderName, EncoderReference
from templatefix.patching.bench import Bench, Kwargs
from templatefix.patching.contract import Proof, c2, c6
from templatefix.patching.contract.exam import Exam, Outcome, Walk, difference, outcome
from templatefix.patching.contract.openings import Input, openings
from templatefix.patching.contract.search import drawn, search
from templatefix.ready.encoding import Encoding, encoding
from templatefix.ready.measure import (
    BLOCK_SIZE,
    SEED,
    asked_of,
    costs,
    expect_held,
    prompt_tokens,
    reuse,
    tokenizer_of,
)
from templatefix.ready.shelf import Ready
from templatefix.replay.run import Plan
from templatefix.source.template import ChatTemplate


class Unlike(Exception):
    """A prompt that the template renders and the encoder does not, or otherwise."""

    def __init__(self, asked: Input, mine: Outcome, theirs: Outcome) -> None:
        parted = mine.text is not None and theirs.text is not None
        words = (
            difference(theirs.text or "", mine.text or "")
            if parted
            else f"the encoder {theirs}, the template {mine}"
        )
        super().__init__(f"{words} (kwargs {dict(asked.kwargs)}, messages {asked.messages})")


@dataclass
class Comparison:
    """A template beside an encoder: counts what they render alike, each request once."""

    template: Server
    encoder: Server
    prompts: int = 0
    refused: int = 0
    seen: set[str] = field(default_factory=set)

    def look(self, asked: Iterable[Input]) -> None:
        """Compare. Raises :class:`Unlike`; to refuse what the encoder refuses is no duty."""
        for one in asked:
            key = repr((one.messages, one.tools, one.kwargs))
            if key in self.seen:
                continue
            self.seen.add(key)
            request = (one.messages, one.tools, one.kwargs)
            try:
                theirs = outcome(lambda request=request: self.encoder.prompt(*request))  # type: ignore[misc]
                mine = outcome(lambda request=request: self.template.prompt(*request))  # type: ignore[misc]
            except Unpresentable:
                continue
            if theirs.text is None:
                self.refused += mine.text is not None
            elif mine.text != theirs.text:
                raise Unlike(one, mine, theirs)
            else:
                self.prompts += 1

    @property
    def agreement(self) -> Agreement:
        return Agreement(self.prompts, self.refused)


def served(encoder: Encoding, kwargs: Kwargs | None = None) -> Server:
    """The encoder as a server has it; ``kwargs`` go with every request."""
    renderer = encoder.given(kwargs or {})
    return Server(renderer, renderer.content_format, knows_developer=True)


def against_encoder(
    ready: Ready, named: EncoderName, template: ChatTemplate, max_examples: int
) -> EncoderReference:
    """Measure a ready template against an encoder; ``template`` is it, with its tokenizer.

    Raises ``TargetError`` where they differ, where the template does not preserve, and where there
    is no vLLM.
    """
    header = ready.header
    asked = asked_of(header)
    subject = prepare(template, asked)
    bench = Bench(subject, modes_of(subject, asked), header.policy, BLOCK_SIZE)
    exam = Exam(bench, ready.text, subject.server)
    found, generated = search(exam, max_examples, SEED) if max_examples else (None, 0)
    preserves = c2.check(exam)
    results = (replace(preserves, tried=preserves.tried + generated), c6(bench))
    expect_held(ready, named.name, Proof(results, SEED, generated))
    if found is not None:
        message = f"breaks {found.clause} by itself: {found.message}"
        raise TargetError(str(ready.path), message, "mend the ready template")
    with encoding(named.name) as encoder:
        if subject.server.content_format != encoder.content_format:
            message = f"makes vLLM send content in its {subject.server.content_format} form"
            hint = f"{named.name} gets the {encoder.content_format} form"
            raise TargetError(str(ready.path), message, hint)
        first, later = _compared(ready, named, exam, encoder, max_examples)
        plain = served(encoder)
        before = bench.drive("", plain, bench.spoken)
        version = encoder.version
    if before.fault is not None:
        raise TargetError(named.name, f"fails: {before.fault}", "leave it out of the header")
    return EncoderReference(
        name=named.name,
        version=version,
        kwargs=named.kwargs,
        tokenizer=tokenizer_of(subject),
        approximate=subject.encoder.approximate,
        modes=bench.kwargs,
        clauses={each.clause: each.tried for each in results},
        conversations=len(bench.original.runs),
        generated=generated,
        tokens=prompt_tokens(bench.original),
        openings=first,
        histories=later,
        reuse=tuple(reuse(before, bench.original)),
        costs=tuple(costs(before, bench.original)),
    )


def _compared(
    ready: Ready, named: EncoderName, exam: Exam, encoder: Encoding, max_examples: int
) -> tuple[Agreement, Agreement | None]:
    mine, theirs = exam.bench.subject.server, served(encoder, named.kwargs)
    first, later = Comparison(mine, theirs), Comparison(mine, theirs)

    def look(walk: Walk) -> None:
        asked = list(requests(walk))
        first.look(asked[:1])
        if named.kwargs is not None:
            later.look(asked[1:])

    try:
        for kwargs in exam.bench.modes.sweep:
            first.look(each for each in openings(kwargs) if each.generation_prompt)
        for walk in exam.walks:
            look(walk)
        for conversation in drawn(exam.bench, max_examples, SEED) if max_examples else ():
            for walk in walks(exam, *conversation):
                look(walk)
    except Unlike as unlike:
        message = f"renders otherwise than {named.name}: {unlike}"
        raise TargetError(str(ready.path), message, "mend the ready template") from None
    return first.agreement, None if named.kwargs is None else later.agreement


def walks(exam: Exam, scenario: Scenario, kwargs: Kwargs) -> Iterator[Walk]:
    """A conversation as far as it can be replayed in a mode."""
    walk = exam.walk(Plan(scenario, kwargs, core=False))
    if isinstance(walk, Walk):
        yield walk


def requests(walk: Walk) -> Iterator[Input]:
    """What a client sends in a conversation."""
    for request in walk.before.requests:
        yield Input(request.messages, walk.before.tools, request.kwargs)
