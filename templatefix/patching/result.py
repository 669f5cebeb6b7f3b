"""A repair told in values: what was changed, what proves it, what it costs, what still breaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from templatefix.checking.options import CheckOptions
from templatefix.checking.outcome import run_outcome
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import prepare
from templatefix.findings.repair import (
    Broken,
    ClauseOutcome,
    FixOutcome,
    Refusal,
    RepairReport,
    Rungless,
    Trade,
)
from templatefix.patching.bench import Bench, Trial
from templatefix.patching.long_chat import render_cost
from templatefix.patching.newlines import with_newlines_of
from templatefix.patching.remaining import still_shown
from templatefix.patching.repair import Attempt, Patched, PatchOptions
from templatefix.replay.run import Run
from templatefix.source.template import sha256


def report_of(patched: Patched, options: PatchOptions) -> RepairReport:
    """The outcome of a repair, with what breaks still under the widest policy."""
    template, proof, candidate = patched.template, patched.proof, patched.candidate
    bench = _wide_bench(patched, options)
    before = bench.original
    # The text without the template's own newlines: a renderer does not tell them apart.
    after = before if patched.status != "patched" else bench.trial(patched.text or "")
    text = patched.text
    if text is not None:
        text = with_newlines_of(template.text, text)
    encoder = bench.subject.encoder
    return RepairReport(
        target=template.target,
        display=template.display,
        template_name=template.name,
        policy=patched.policy,
        block_size=options.block_size,
        status=patched.status,
        original_sha256=sha256(template.text),
        source=template.text,
        text=text,
        patched_sha256=None if text is None else sha256(text),
        tokenizer_source=encoder.source,
        tokenizer_approximate=encoder.approximate,
        rung=(candidate.rung or None) if candidate else None,
        changes=candidate.notes if candidate else (),
        flag_kwargs=dict(candidate.kwargs) if candidate and candidate.kwargs else None,
        clauses=tuple(
            ClauseOutcome(each.clause, each.passed, each.tried, each.notes)
            for each in (proof.results if proof else ())
        ),
        seed=proof.seed if proof else options.seed,
        examples=proof.examples if proof else 0,
        broken=patched.broken,
        excluded=patched.excluded,
        remaining=still_shown(template, patched.text, options),
        unrepaired=tuple(
            Broken(
                failure.code,
                failure.run.plan.id,
                failure.comparison.turn,
                failure.comparison.lost,
            )
            for failure in (before.failures if patched.status == "failed" else ())
            if patched.policy != "lossless" or failure.code != "TF102"
        ),
        fixes=tuple(
            FixOutcome(each.code, each.words, each.tried, each.left) for each in patched.fixes
        ),
        failing=_refusal(patched.failing) if patched.failing else None,
        trades=tuple(trades(before, after)) if patched.status == "patched" else (),
        render_cost=(
            render_cost(patched.text or "", bench) if candidate and candidate.rung == 5 else None
        ),
        refusals=tuple(map(_refusal, patched.attempts)),
        passed_over=tuple(Rungless(each.rung, each.why) for each in patched.passed_over),
        runs=tuple(
            run_outcome(run, options.block_size, full=True)
            for run in (after.runs if patched.status == "patched" else ())
            if run.plan.replay == "raw"
        ),
    )


def _refusal(attempt: Attempt) -> Refusal:
    broken = attempt.violation
    return Refusal(attempt.rung, broken.clause, broken.message, broken.conversation)


def _wide_bench(patched: Patched, options: PatchOptions) -> Bench:
    """A bench on which nothing is out of scope."""
    asked = CheckOptions(
        block_size=options.block_size,
        kwargs=options.kwargs,
        reasoning_parser=options.reasoning_parser,
        tool_call_parser=options.tool_call_parser,
    )
    subject = prepare(patched.template, asked)
    return Bench(subject, modes_of(subject, asked), "keep-reasoning", options.block_size)


def trades(before: Trial, after: Trial) -> Iterable[Trade]:
    """One trade for each mode, over the runs in which the parsers' fields come back unchanged."""
    repaired = {run.plan.id: run for run in after.runs}
    found: dict[str, Trade] = {}
    for run in before.runs:
        other = repaired.get(run.plan.id)
        if run.plan.replay != "raw" or other is None:
            continue
        kwargs: Mapping[str, Any] = run.plan.kwargs
        trade = found.setdefault(repr(kwargs), Trade(kwargs, 0, 0, 0))
        extra, computed = _prompts(other) - _prompts(run), _computed(run) - _computed(other)
        found[repr(kwargs)] = replace(
            trade,
            requests=trade.requests + len(run.comparisons),
            extra_context=trade.extra_context + extra,
            saved_prefill=trade.saved_prefill + computed,
        )
    return found.values()


def _prompts(run: Run) -> int:
    """Tokens in the prompts of all requests but the first."""
    return sum(len(comparison.after.prompt_ids) for comparison in run.comparisons)


def _computed(run: Run) -> int:
    """Those of them that are not in the cache."""
    return _prompts(run) - sum(comparison.hit for comparison in run.comparisons)
