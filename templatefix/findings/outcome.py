"""What a check of one template comes to: runs, coverage, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from templatefix.findings.finding import Finding
from templatefix.findings.recorded import RecordedTraffic
from templatefix.findings.repair import RepairReport
from templatefix.findings.run_outcome import RunOutcome

Verdict = Literal["preserving", "breaks", "not-evaluated", "error"]


@dataclass(frozen=True)
class NotEvaluated:
    """Something that was not evaluated, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class Coverage:
    """What was evaluated: modes (sets of kwargs), scenarios, clients; and what was not."""

    modes: tuple[Mapping[str, Any], ...] = ()
    scenarios: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    not_evaluated: tuple[NotEvaluated, ...] = ()


@dataclass(frozen=True)
class Fault:
    """Why a target has no verdict: a finding code, what is wrong and the next step."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True)
class Hidden:
    """A finding that was not reported: a comment in the template or a baseline accepts it."""

    finding: Finding
    by: Literal["suppression", "baseline"]
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """The outcome for one template of one target.

    ``source`` is the template's text (None when it could not be read), for reports that show
    lines. ``renderer`` is who rendered the prompts: ``jinja``, or a server. ``attention`` is
    ``sliding-window`` or ``hybrid`` where hits are an upper bound. ``recorded`` is there where
    recorded traffic was replayed, and nothing else. ``repairs`` are those that were asked for.
    """

    target: str
    display: str
    template_name: str | None
    template_sha256: str | None
    tokenizer_source: str | None
    tokenizer_approximate: bool
    block_size: int
    policy: str
    verdict: Verdict
    fault: Fault | None = None
    coverage: Coverage = field(default_factory=Coverage)
    runs: tuple[RunOutcome, ...] = ()
    findings: tuple[Finding, ...] = ()
    source: str | None = None
    attention: str | None = None
    parsers: tuple[str | None, str | None] = (None, None)
    skipped: str | None = None
    hidden: tuple[Hidden, ...] = ()
    recorded: RecordedTraffic | None = None
    renderer: str = "jinja"
    repairs: tuple[RepairReport, ...] = ()

    @property
    def keeps_to_its_policy(self) -> bool:
        """Whether it breaks by nothing but what its policy leaves out of history."""
        broken = [run for run in self.runs if run.core and run.preserving is False]
        return bool(broken) and all(run.left_out for run in broken)
