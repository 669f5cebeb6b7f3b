"""Measuring a ready template against published ones: what its record is made of.

The contract of ``templatefix patch`` is the measure: the ready template is held to it as if it
were a candidate for the repair of the published one.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from templatefix import __version__
from templatefix.checking.options import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import Subject, prepare
from templatefix.errors import TargetError
from templatefix.findings.ready import (
    ChatReuse,
    Cost,
    EncoderReference,
    Header,
    Patch,
    Record,
    Reference,
    TurnReuse,
)
from templatefix.patching.bench import Bench, Trial
from templatefix.patching.contract import Proof, c6, verify
from templatefix.patching.contract.exam import difference
from templatefix.patching.long_chat import MANY, long_chat, steps
from templatefix.patching.repair import PatchOptions, repair
from templatefix.patching.result import trades
from templatefix.ready.shelf import Ready
from templatefix.render import Crashed, Refused
from templatefix.replay.run import Client, Plan, Run, replay
from templatefix.source.template import ChatTemplate, sha256

BLOCK_SIZE = 16
SEED = 0

#: The chats of four turns whose reuse is recorded.
_CHATS = ("plain-chat", "reasoning-chat", "tool-loop-then-user")


def measured(
    ready: Ready,
    published: Sequence[tuple[str, ChatTemplate]],
    max_examples: int,
    encoders: Sequence[EncoderReference] = (),
) -> Record:
    """Measure a ready template against the published templates of the models it names.

    ``published`` holds pairs of a model id and its template, ``encoders`` what was measured
    against encoders (:mod:`templatefix.ready.encoders`). Raises ``TargetError`` where the
    contract does not hold, or where the header hides a difference.
    """
    header = ready.header
    references = tuple(
        _reference(ready, header, model_id, template, max_examples)
        for model_id, template in published
    )
    return Record(
        name=ready.name,
        sha256=sha256(ready.text),
        policy=header.policy,
        block_size=BLOCK_SIZE,
        seed=SEED,
        versions={
            "templatefix": __version__,
            "python": ".".join(map(str, sys.version_info[:2])),
            **{name: version(name) for name in ("jinja2", "tokenizers", "hypothesis")},
        },
        references=references,
        limits=header.limits,
        encoders=tuple(encoders),
    )


def asked_of(header: Header) -> CheckOptions:
    """How the checks are made: with the parsers that the template is served with."""
    return CheckOptions(
        block_size=BLOCK_SIZE,
        reasoning_parser=header.reasoning_parser,
        tool_call_parser=header.tool_call_parser,
    )


def _reference(
    ready: Ready, header: Header, model_id: str, template: ChatTemplate, max_examples: int
) -> Reference:
    asked = asked_of(header)
    subject = prepare(template, asked)
    bench = Bench(subject, modes_of(subject, asked), header.policy, BLOCK_SIZE)
    repaired = prepare(replace(template, text=ready.text), asked)
    _expect_served_alike(ready, model_id, subject, repaired)
    modes = modes_of(repaired, asked)
    proof = verify(bench, ready.text, max_examples=max_examples, seed=SEED, fold=True)
    proof = proof.including(c6(Bench(repaired, modes, header.policy, BLOCK_SIZE)))
    expect_held(ready, model_id, proof)
    trial = bench.trial(ready.text)
    return Reference(
        model_id=model_id,
        sha256=sha256(template.text),
        tokenizer=tokenizer_of(subject),
        approximate=subject.encoder.approximate,
        modes=bench.kwargs,
        clauses={each.clause: each.tried for each in proof.results},
        conversations=len(trial.runs),
        generated=proof.examples,
        tokens=prompt_tokens(trial),
        steps=_steps(bench, ready.text),
        reuse=tuple(reuse(bench.original, trial)),
        costs=tuple(costs(bench.original, trial)),
        patch=against_patch(ready, header, subject, bench),
    )


def expect_held(ready: Ready, model_id: str, proof: Proof) -> None:
    """Raises ``TargetError`` for the first clause that was broken."""
    for violation in proof.violations:
        message = f"breaks {violation.clause} against {model_id}: {violation.message}"
        raise TargetError(str(ready.path), message, "mend the ready template")


def _expect_served_alike(
    ready: Ready, model_id: str, published: Subject, repaired: Subject
) -> None:
    """vLLM reads from a template what messages to send; a bench sends what the original gets."""
    was, now = published.server, repaired.server
    if now.content_format != was.content_format:
        message = (
            f"makes vLLM send content in its {now.content_format} form, where the template of "
            f"{model_id} gets the {was.content_format} form"
        )
        raise TargetError(str(ready.path), message, "loop over content as the published one does")
    if now.knows_developer != was.knows_developer:
        message = f"names the role developer, or the template of {model_id} does, but not both"
        raise TargetError(str(ready.path), message, "name it where the published one does")


def tokenizer_of(subject: Subject) -> str:
    """What tokens were counted with: by content, since a path means nothing elsewhere."""
    source = subject.encoder.source
    file = Path(source)
    if subject.encoder.approximate or not file.is_file():
        return source
    return f"{file.name} sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}"


def prompt_tokens(trial: Trial) -> int:
    """The tokens of all prompts."""
    return sum(len(r.prompt_ids) for run in trial.runs for r in run.requests)


def costs(before: Trial, after: Trial) -> Iterator[Cost]:
    """What each mode costs a request, on average."""
    for trade in trades(before, after):
        requests = max(1, trade.requests)
        yield Cost(
            trade.kwargs,
            trade.requests,
            round(trade.extra_context / requests, 1),
            round(trade.saved_prefill / requests, 1),
        )


def reuse(before: Trial, after: Trial) -> Iterator[ChatReuse]:
    """The chats of four turns, as they are published and as they are ready."""
    repaired = {run.plan.id: run for run in after.runs}
    for run in before.runs:
        plan = run.plan
        if plan.scenario.name in _CHATS and plan.replay == "raw" and plan.id in repaired:
            yield ChatReuse(plan.scenario.name, plan.kwargs, _turns(run, repaired[plan.id]))


def _turns(before: Run, after: Run) -> tuple[TurnReuse, ...]:
    return tuple(
        TurnReuse(
            was.turn,
            (len(was.after.prompt_ids), len(now.after.prompt_ids)),
            (was.hit, now.hit),
            (was.ideal, now.ideal),
        )
        for was, now in zip(before.comparisons, after.comparisons, strict=True)
    )


def _steps(bench: Bench, text: str) -> float:
    """How many times the steps of the published template a hundred turns take."""
    chat = long_chat(MANY, None)
    was = steps(bench.subject.template.text, bench, chat, None, {})
    now = steps(text, bench, chat, None, {})
    return round(now / was, 2) if was and now else 0.0


def against_patch(ready: Ready, header: Header, subject: Subject, bench: Bench) -> Patch:
    """The prompts of the bench's runs, under the ready template and under the patched one.

    Raises ``TargetError`` where they differ and the header does not say why.
    """
    options = PatchOptions(
        policy=header.policy,
        block_size=BLOCK_SIZE,
        reasoning_parser=header.reasoning_parser,
        tool_call_parser=header.tool_call_parser,
    )
    patched = repair(subject.template, options)
    if patched.text is None:
        return Patch(None, 0, 0, None)
    mine, theirs = bench.server(ready.text), bench.server(patched.text)
    prompts, different, example = 0, 0, None
    for plan in _plans(bench):
        try:
            run = replay(plan, subject.author, subject.encoder, BLOCK_SIZE)
        except (Refused, Crashed):
            continue
        for request in run.requests:
            asked = (request.messages, run.tools, request.kwargs)
            prompts += 1
            one, other = _prompt(mine, *asked), _prompt(theirs, *asked)
            if one != other:
                different += 1
                example = example or f"{plan.id}: {difference(other, one)}"
    if different and not header.differs:
        message = f"renders {different} of {prompts} prompts unlike the patch: {example}"
        raise TargetError(
            str(ready.path), message, "say why in a line 'differs: ...' of its header"
        )
    return Patch(patched.candidate.rung if patched.candidate else None, prompts, different, example)


def _plans(bench: Bench) -> Iterator[Plan]:
    clients: tuple[Client, ...] = ("faithful", "reasoning-dropping")
    for plan in bench.spoken:
        for client in clients if plan.replay == "raw" else clients[:1]:
            yield Plan(plan.scenario, plan.kwargs, client, plan.replay)


def _prompt(server: Any, messages: Any, tools: Any, kwargs: Mapping[str, Any]) -> str:
    try:
        prompt: str = server.prompt(messages, tools, kwargs)
    except Refused as refused:
        return f"refused: {refused.message}"
    except Crashed as crashed:
        return f"crashed: {crashed}"
    return prompt
