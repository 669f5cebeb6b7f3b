"""What a check of one template comes to: runs, coverage, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from templatefix.findings.finding import Finding
from templatefix.findings.recorded import RecordedTraffic

Verdict = Literal["preserving", "breaks", "not-evaluated", "error"]


@dataclass(frozen=True)
class TurnRow:
    """Request ``turn`` (1-based) in tokens.

    The last four compare the stream of the request before with this prompt; they are None for
    the first request.
    """

    turn: int
    prompt_tokens: int
    stream_tokens: int | None
    previous_stream_tokens: int | None
    reuse_tokens: int | None
    hit_tokens: int | None
    ideal_tokens: int | None


@dataclass(frozen=True)
class RunOutcome:
    """One conversation in one mode, with one client and one replay form.

    ``completion`` says where the completions come from: ``training-view``, ``dialect``,
    ``markers``, ``given``, ``server`` or ``unknown``. ``lost_to`` is ``client`` where the loss is
    the client's choice. ``requested`` marks a conversation that the user gave.
    """

    id: str
    core: bool
    kwargs: Mapping[str, Any]
    client: str
    replay: str
    scenario: str
    preserving: bool | None
    lost_to: str | None
    completion: str
    turns: tuple[TurnRow, ...]
    requested: bool = False


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
    recorded traffic was replayed, and nothing else.
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
