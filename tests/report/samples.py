"""Reports made by hand, so that formats are tested without a check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from templatefix.findings.finding import Divergence, Finding, Fix, Location, Side
from templatefix.findings.outcome import Coverage, Fault, NotEvaluated, Report
from templatefix.findings.recorded import (
    RecordedTraffic,
    Recovery,
    SetAside,
    SkippedLine,
    TrafficLoss,
)
from templatefix.findings.run_outcome import RunOutcome, TurnRow
from templatefix.report.edition import Edition

EDITION = Edition("0.1.0", "vllm-0.32", "jinja", "2026-01-15T12:00:00")

SOURCE = """\
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- if loop.index0 > last_question %}
            {{- '<think>' + message.reasoning + '</think>' }}
        {%- endif %}
        {{- message.content }}
    {%- endif %}
{%- endfor %}
"""

ROWS = (
    TurnRow(1, 30, 96, None, None, None, None),
    TurnRow(2, 60, 120, 96, 39, 32, 80),
    TurnRow(3, 90, 150, 120, 60, 48, 112),
)


def run(identifier: str = "r1", **changes: Any) -> RunOutcome:
    made = RunOutcome(
        identifier,
        core=True,
        kwargs={"enable_thinking": True},
        client="faithful",
        replay="raw",
        scenario="reasoning-chat",
        preserving=False,
        lost_to=None,
        completion="training-view",
        turns=ROWS,
    )
    return replace(made, **changes)


def finding(**changes: Any) -> Finding:
    made = Finding(
        code="TF102",
        name="dropped-reasoning",
        severity="error",
        confidence="high",
        message="history leaves out the reasoning that the model wrote and the client replayed",
        run_ids=("r1",),
        kwargs={"enable_thinking": True},
        client="faithful",
        scenario="reasoning-chat",
        turn=2,
        locations=(
            Location(
                "cause",
                3,
                16,
                3,
                43,
                "true when the answer was written, false once a user message follows",
                "loop.index0 > last_question",
            ),
            Location("printed-now", 6, 9, 6, 31, "printed now, without the reasoning", "content"),
        ),
        lost_here=57,
        lost_tokens=170,
        reused=39,
        cached=32,
        total=96,
        divergence=Divergence(
            39,
            140,
            Side("tell me.<|im_end|>\n<|im_start|>assistant\n", "<think>\nThe user", (7, 8, 9)),
            Side("tell me.<|im_end|>\n<|im_start|>assistant\n", "Paris.<|im_end|>", (5, 6)),
        ),
        fix=Fix("templatefix patch --policy keep-reasoning"),
        anchor="assistant",
    )
    return replace(made, **changes)


def report(**changes: Any) -> Report:
    made = Report(
        target="models/small.jinja",
        display="models/small.jinja",
        template_name=None,
        template_sha256="ab" * 32,
        tokenizer_source="models/tokenizer.json",
        tokenizer_approximate=False,
        block_size=16,
        policy="keep-reasoning",
        verdict="breaks",
        coverage=Coverage(
            ({}, {"enable_thinking": False}),
            ("plain-chat", "reasoning-chat"),
            ("faithful",),
            (
                NotEvaluated("image", "media are not evaluated"),
                NotEvaluated("audio", "media are not evaluated"),
                NotEvaluated("developer", "the template refuses: unknown role"),
            ),
        ),
        runs=(run(), run("r2", preserving=True, scenario="plain-chat")),
        findings=(finding(),),
        source=SOURCE,
    )
    return replace(made, **changes)


def clean(**changes: Any) -> Report:
    runs = (run(preserving=True), run("r2", preserving=True, scenario="plain-chat"))
    return replace(report(verdict="preserving", findings=(), runs=runs), **changes)


def info(**changes: Any) -> Finding:
    made = finding(
        code="TF105",
        name="stop-token-mismatch",
        severity="info",
        message="history ends the turn with another token than the one that stopped generation",
        divergence=None,
        fix=None,
        lost_here=None,
        lost_tokens=0,
        reused=None,
        cached=None,
        total=None,
    )
    return replace(made, **changes)


def traffic(**changes: Any) -> RecordedTraffic:
    made = RecordedTraffic(
        "traffic.jsonl",
        lines=1210,
        requests=1200,
        conversations=310,
        continued=890,
        branches=3,
        closed=1,
        completions={"ids": 800, "text": 80, "unknown": 10},
        cut=7,
        prompt_tokens=1234567,
        reused_tokens=700000,
        ideal_tokens=900000,
        losses=(
            TrafficLoss("template", "TF102", 150000, 310, 17, 3, 16),
            TrafficLoss("parser", "TF301", 20000, 12, 40),
            TrafficLoss("client", "dropped-reasoning", 30000, 120, 9, shared_tokens=25000),
        ),
        skipped_lines=5,
        skipped=tuple(SkippedLine(line, "not JSON") for line in (2, 3, 5, 7, 11)),
        set_aside=(SetAside("the server answered with an error", 5, 20),),
        other_prompts=2,
        recovery=Recovery("keep-reasoning", "patched", 149000, 120000),
    )
    return replace(made, **changes)


def unreadable(target: str = "nowhere.jinja", code: str = "TF901") -> Report:
    fault = Fault(code, "no such file or directory", "check the path")
    return Report(
        target, target, None, None, None, False, 16, "keep-reasoning", "error", fault=fault
    )
