"""Property-based search: a conversation that breaks a template otherwise than the battery does.

Hypothesis is imported here only. It keeps no database, has no deadline, draws from explicit
alphabets, and what it would store goes to the user's cache folder.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from templatefix.chat.conversation import Message, Scenario, assistant_message, numbered
from templatefix.chat.present import Unpresentable
from templatefix.checking.breaks import (
    HARMLESS,
    Break,
    canonical_reuse,
    finding_of,
    key_of,
    witness_of,
)
from templatefix.checking.notes import Notes, note
from templatefix.checking.subject import Subject, refuses_system
from templatefix.dialect.author import Author, Unspoken
from templatefix.findings.blame import Witness, blame
from templatefix.findings.evidence import gather
from templatefix.findings.finding import Finding
from templatefix.limits import Scene
from templatefix.render import Crashed, OverLimit, Refused
from templatefix.replay.modes import Modes
from templatefix.replay.run import Comparison, Plan, Run, in_mode, received, replay
from templatefix.rules import classify
from templatefix.syntax import literals

#: No more findings than this are sought, and no more conversations tried than this many for each
#: example asked for: shrinking takes more of them than finding does.
FINDINGS, TRIES = 3, 15

#: Conversations drawn in one go.
PORTION = 20


@contextmanager
def _signals_kept() -> Iterator[list[int]]:
    """Keep interrupts until the block is left, and deliver them then.

    Hypothesis takes whatever is raised while it draws for a fault of what it tests, and goes on.
    The list holds the signals that have come: whoever sees one there should end soon.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not None and handler != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@dataclass
class _Hunt:
    """What is known already, and what one hunt has come upon.

    ``known`` are the guilty places, whatever their codes: one fault shows in many ways.
    """

    subject: Subject
    witness: Witness
    block_size: int
    known: set[tuple[int, int]]
    crashes: set[tuple[str, int | None]]
    budget: int
    came: list[int]
    tried: dict[str, Break | Crashed | None] = field(default_factory=dict)

    def look(self, scenario: Scenario, kwargs: Mapping[str, Any]) -> Break | Crashed | None:
        """A break or a crash of a new kind that a conversation shows."""
        key = repr((scenario.turns, scenario.tools is None, kwargs))
        if key not in self.tried:
            if self.came or len(self.tried) >= self.budget:
                return None
            self.tried[key] = self._try(Plan(scenario, kwargs, core=False))
        return self.tried[key]

    def _try(self, plan: Plan) -> Break | Crashed | None:
        try:
            with Scene("a conversation of the search"):
                run = replay(plan, self.subject.author, self.subject.encoder, self.block_size)
        except OverLimit:
            return None  # noted by the limits
        except Crashed as crashed:
            return None if (crashed.kind, crashed.line) in self.crashes else crashed
        except (Unspoken, Unpresentable, Refused):
            return None
        if not self._faithful(run):
            return None
        for comparison in run.comparisons:
            if not comparison.preserving:
                found = self._new(run, comparison)
                if found is not None:
                    return found
        return None

    def _new(self, run: Run, comparison: Comparison) -> Break | None:
        encoder = self.subject.encoder
        evidence = gather(comparison, canonical_reuse(comparison, encoder))
        code, detail, also = classify(evidence)
        if code in HARMLESS:
            return None
        guilty = blame(comparison, evidence, run.tools, self.witness)
        found = Break(run, comparison, code, detail, also, guilty)
        return None if key_of(found)[2] in self.known else found

    def _faithful(self, run: Run) -> bool:
        """Whether the server's parsers find in every completion what it meant."""
        parsers = self.subject.author.parsers
        for request, turn in zip(run.requests, run.plan.scenario.turns, strict=False):
            completion = request.completion
            if completion is None or request.answer is None:
                continue
            if completion.written is None:
                return False
            written = completion.written
            # The search cuts no answer short.
            told = received(request, self.subject.author, run.tools, cut=False)
            if told is not None:
                meant = turn.answer or request.answer
                if written.reasoning is None:
                    meant = meant._replace(reasoning=None)
                if not parsers.agree(told, meant):
                    return False
                continue
            if not parsers.understand(
                written.said,
                request.answer,
                state=completion.state,
                kwargs=request.kwargs,
                tools=run.tools,
            ):
                return False
        return True


def search(
    subject: Subject,
    modes: Modes,
    breaks: Sequence[Break],
    notes: Notes,
    *,
    policy: str,
    block_size: int,
    max_examples: int,
    seed: int,
) -> list[Finding]:
    """Findings that the battery did not make, each with the smallest conversation that shows it.

    ``breaks`` are those of the battery. Crashes are added to ``notes``.
    """
    with _signals_kept() as came:
        return _search(subject, modes, breaks, notes, policy, block_size, max_examples, seed, came)


def _search(
    subject: Subject,
    modes: Modes,
    breaks: Sequence[Break],
    notes: Notes,
    policy: str,
    block_size: int,
    max_examples: int,
    seed: int,
    came: list[int],
) -> list[Finding]:
    found: list[Finding] = []
    hunt = _Hunt(
        subject,
        witness_of(subject),
        block_size,
        {key_of(each)[2] for each in breaks},
        {(f.detail.partition(":")[0], f.line) for f in notes.findings if f.code == "TF203"},
        max_examples * TRIES,
        came,
    )
    for number in range(FINDINGS):
        hit = _find(hunt, modes, max_examples, seed + number)
        if hit is None or came:
            break
        scenario, kwargs, what = hit
        if isinstance(what, Crashed):
            hunt.crashes.add((what.kind, what.line))
            plan = Plan(scenario, kwargs, core=False)
            note(notes, plan, "TF203", f"{what.kind}: {what.message}", what.line)
            conversation = _conversation_of(scenario, kwargs, subject.author)
            shown = replace(notes.findings[-1], conversation=conversation)
            notes.findings[-1] = shown
            continue
        hunt.known.add(key_of(what)[2])
        finding = finding_of(what, policy, subject)
        found.append(replace(finding, conversation=_replayed(what.run)))
    return found


def _find(
    hunt: _Hunt, modes: Modes, max_examples: int, seed: int
) -> tuple[Scenario, Mapping[str, Any], Break | Crashed] | None:
    """The smallest conversation of a new kind, the mode it needs, and what it shows."""
    make_home()
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import NoSuchExample

    from templatefix.chat.strategies import conversations

    hunt.tried = {key: hit for key, hit in hunt.tried.items() if hit is None}
    subject = hunt.subject
    strategy = st.tuples(
        conversations(
            markers_of(subject),
            tools=subject.speaks_tools,
            system=not refuses_system(subject.server),
        ),
        st.sampled_from(modes.sweep),
    )
    # In portions: between them an interrupt is heeded.
    for begun in range(0, max_examples, PORTION):
        try:
            scenario, kwargs = find(
                strategy,
                lambda drawn: hunt.look(*drawn) is not None,
                settings=settings(
                    max_examples=min(PORTION, max_examples - begun),
                    database=None,
                    deadline=None,
                    phases=(Phase.generate, Phase.shrink),
                    suppress_health_check=list(HealthCheck),
                ),
                random=Random(f"{seed} {begun}" if begun else seed),
            )
        except NoSuchExample:
            if hunt.came:
                return None
            continue
        hit = hunt.look(scenario, kwargs)
        return None if hit is None else (scenario, kwargs, hit)
    return None


def make_home() -> None:
    """Keep Hypothesis's files out of the working directory."""
    from hypothesis.configuration import set_hypothesis_home_dir

    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    set_hypothesis_home_dir(Path(cache) / "templatefix" / "hypothesis")


def markers_of(subject: Subject) -> tuple[str, ...]:
    """Tags of the template that a user might well type: none that the tokenizer takes for one."""
    special = subject.encoder.special_tokens()
    tags = subject.author.parsers.tags
    pieces = {piece for text in literals(subject.parsed) for piece in text.split()}
    found = [piece for piece in pieces if piece.startswith("<") and piece.endswith(">")]
    known = [tags.open, tags.close] if tags else []
    return tuple(sorted(p for p in {*found, *known} if p not in special and len(p) <= 24))[:12]


def _replayed(run: Run) -> dict[str, Any]:
    """The conversation as ``--conversation`` takes it: with what was generated."""
    last = run.requests[-1]
    messages = [dict(message) for message in last.messages]
    answers = [i for i, message in enumerate(messages) if message.get("role") == "assistant"]
    for i, request in zip(answers, run.requests, strict=False):
        if request.completion is not None and request.completion.written is not None:
            messages[i]["completion"] = request.completion.written.text
    return _as_given(messages, run.tools, last.kwargs)


def _conversation_of(
    scenario: Scenario, kwargs: Mapping[str, Any], author: Author
) -> dict[str, Any]:
    """A conversation that could not be rendered: what the client would have sent."""
    messages: list[Message] = []
    call_ids: tuple[str, ...] = ()
    for turn in scenario.turns:
        messages += numbered(turn.new_messages, call_ids)
        with suppress(Crashed, Refused):  # of the request that fails
            turn = in_mode(scenario, turn, messages, kwargs, author)
        if turn.answer is not None:
            call_ids = author.parsers.call_ids(turn.answer.tool_calls, messages)
            messages.append(assistant_message(turn.answer, call_ids))
    return _as_given([dict(message) for message in messages], scenario.tools, kwargs)


def _as_given(
    messages: list[dict[str, Any]], tools: Any, kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    given: dict[str, Any] = {"messages": messages}
    if tools:
        given["tools"] = list(tools)
    if kwargs:
        given["chat_template_kwargs"] = dict(kwargs)
    return given
