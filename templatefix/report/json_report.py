"""The JSON report, version 1: ``schema.json`` beside this file describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from templatefix.findings.finding import Divergence, Finding, Location, Side
from templatefix.findings.outcome import Coverage, Fault, Hidden, Report
from templatefix.findings.run_outcome import RunOutcome, TurnRow
from templatefix.report.edition import Edition, gravest_first
from templatefix.report.recorded_json import recorded_json
from templatefix.report.visible import json_safe

SCHEMA_VERSION = 1

_text = json.JSONEncoder(ensure_ascii=False).encode


def json_report(reports: Iterable[Report], edition: Edition, *, full: bool = False) -> str:
    """The document as text that ends in a newline. ``full`` keeps every run's turn rows."""
    document = json_document(reports, edition, full=full)
    return to_json(document) + "\n"


def to_json(document: Any, *, indent: int | None = 2) -> str:
    """JSON that no terminal, log or UTF-8 encoder trips over."""
    document = plain(document)
    if indent is None:
        return json_safe(json.dumps(document, ensure_ascii=False))
    return json_safe(_indented(document, "\n", " " * indent))


def _indented(value: Any, line: str, indent: str) -> str:
    """What ``json.dumps`` makes of a plain value, in lines: it has no quick code for those.

    ``line`` ends one and begins the next.
    """
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    if type(value) is int:
        return str(value)
    inner = line + indent
    if isinstance(value, dict):
        parts = [f"{_text(key)}: {_indented(each, inner, indent)}" for key, each in value.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}" if parts else "{}"
    if isinstance(value, list):
        parts = [_indented(each, inner, indent) for each in value]
        return f"[{inner}{f',{inner}'.join(parts)}{line}]" if parts else "[]"
    return json.dumps(value)


def json_document(
    reports: Iterable[Report], edition: Edition, *, full: bool = False
) -> dict[str, Any]:
    return {
        "schema": SCHEMA_VERSION,
        "tool_version": edition.tool_version,
        "presentation": edition.presentation,
        "renderer": edition.renderer,
        "clock": edition.clock,
        "reports": [report_json(report, full=full) for report in reports],
    }


def plain(value: Any) -> Any:
    """A value of JSON's own types; numbers that JSON cannot write become strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return str(value)


def report_json(report: Report, *, full: bool) -> dict[str, Any]:
    reasoning, tool_call = report.parsers
    return {
        "target": report.target,
        "file": report.display,
        "template_name": report.template_name,
        "template_sha256": report.template_sha256,
        "tokenizer": {
            "source": report.tokenizer_source,
            "approximate": report.tokenizer_approximate,
        },
        "block_size": report.block_size,
        "policy": report.policy,
        "attention": report.attention,
        "renderer": report.renderer,
        "parsers": {"reasoning": reasoning, "tool_call": tool_call},
        "verdict": report.verdict,
        "skipped": report.skipped,
        "error": None if report.fault is None else _fault(report.fault),
        "coverage": _coverage(report.coverage),
        "runs": [_run(run, full) for run in report.runs],
        "findings": [_finding(finding) for finding in gravest_first(report.findings)],
        "hidden": [_hidden(hidden) for hidden in report.hidden],
        "recorded": None if report.recorded is None else recorded_json(report.recorded),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    return {"code": fault.code, "message": fault.message, "hint": fault.hint}


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "modes": list(coverage.modes),
        "scenarios": list(coverage.scenarios),
        "clients": list(coverage.clients),
        "not_evaluated": [{"what": each.what, "why": each.why} for each in coverage.not_evaluated],
    }


def _run(run: RunOutcome, full: bool) -> dict[str, Any]:
    shown = full or run.requested or run.preserving is False or run.lost_to is not None
    return {
        "id": run.id,
        "core": run.core,
        "kwargs": run.kwargs,
        "client": run.client,
        "replay": run.replay,
        "scenario": run.scenario,
        "preserving": run.preserving,
        "lost_to": run.lost_to,
        "completion": run.completion,
        "requested": run.requested,
        "turns": [_turn(turn) for turn in run.turns] if shown else [],
    }


def _turn(turn: TurnRow) -> dict[str, Any]:
    return {
        "turn": turn.turn,
        "prompt_tokens": turn.prompt_tokens,
        "stream_tokens": turn.stream_tokens,
        "previous_stream_tokens": turn.previous_stream_tokens,
        "reuse_tokens": turn.reuse_tokens,
        "hit_tokens": turn.hit_tokens,
        "ideal_tokens": turn.ideal_tokens,
        "history_tokens": turn.history_tokens,
        "recomputed_tokens": turn.recomputed_tokens,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "message": finding.message,
        "explanation": finding.explanation,
        "detail": finding.detail,
        "also": list(finding.also),
        "run_ids": list(finding.run_ids),
        "kwargs": finding.kwargs,
        "client": finding.client,
        "scenario": finding.scenario,
        "turn": finding.turn,
        "line": finding.line,
        "column": finding.column,
        "locations": [_location(location) for location in finding.locations],
        "reused_tokens": finding.reused,
        "cached_tokens": finding.cached,
        "stream_tokens": finding.total,
        "lost_here": finding.lost_here,
        "lost_tokens": finding.lost_tokens,
        "requests": finding.requests,
        "divergence": None if finding.divergence is None else divergence_json(finding.divergence),
        "conversation": finding.conversation,
        "fingerprint": finding.fingerprint,
        "fix": None if finding.fix is None else finding.fix.text,
        "fix_safe": None if finding.fix is None else finding.fix.safe,
    }


def _location(location: Location) -> dict[str, Any]:
    return {
        "role": location.role,
        "line": location.line,
        "column": location.column,
        "end_line": location.end_line,
        "end_column": location.end_column,
        "note": location.note,
    }


def divergence_json(divergence: Divergence) -> dict[str, Any]:
    """A divergence as every JSON report has it."""
    return {
        "token_index": divergence.token_index,
        "char_index": divergence.char_index,
        "stream": _side(divergence.stream),
        "prompt": _side(divergence.prompt),
    }


def _side(side: Side) -> dict[str, Any]:
    return {"before": side.before, "text": side.text, "ids": list(side.ids)}


def _hidden(hidden: Hidden) -> dict[str, Any]:
    return {
        "by": hidden.by,
        "reason": hidden.reason,
        "code": hidden.finding.code,
        "line": hidden.finding.line,
        "fingerprint": hidden.finding.fingerprint,
    }
