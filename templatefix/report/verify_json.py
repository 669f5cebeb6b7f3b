"""The JSON report of a live verification, version 1: ``verify_schema.json`` describes it."""

from __future__ import annotations

from typing import Any

from templatefix.findings.verification import Bounds, LiveRun, LiveTurn, Verification
from templatefix.report.json_report import divergence_json, to_json

SCHEMA_VERSION = 1


def verify_json(verification: Verification, tool_version: str) -> str:
    """The document as text that ends in a newline. Lengths are tokens."""
    document: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "tool_version": tool_version,
        "url": verification.url,
        "model": verification.model,
        "block_size": verification.block_size,
        "block_size_from": verification.block_size_from,
        "block_size_stated": verification.stated_block_size,
        "streaming": verification.streaming,
        "tools": verification.tools,
        "local_cache_reset": verification.reset,
        "write_back_expected": verification.write_back,
        "preserving": verification.preserving,
        "agrees": verification.agrees,
        "fault": verification.fault,
        "runs": [_run(run) for run in verification.runs],
        "not_seen": list(verification.unseen),
        "requests": dict(verification.requests),
    }
    return to_json(document) + "\n"


def _run(run: LiveRun) -> dict[str, Any]:
    return {
        "template": run.rendered,
        "client": run.client,
        "preserving": run.preserving,
        "agrees": run.agrees,
        "computed_tokens": run.computed,
        "fault": run.fault,
        "notes": list(run.notes),
        "turns": [_turn(turn) for turn in run.turns],
    }


def _turn(turn: LiveTurn) -> dict[str, Any]:
    return {
        "turn": turn.turn,
        "prompt": turn.prompt,
        "completion": turn.completion,
        "finish_reason": turn.finish,
        "reused": _bounds(turn.reuse),
        "ideal": turn.ideal,
        "predicted": _bounds(turn.predicted),
        "predicted_of_prompts_alone": _bounds(turn.prompt_only),
        "cached": turn.cached,
        "local": turn.local,
        "external": turn.external,
        "lost_tokens": turn.lost,
        "agrees": turn.agrees,
        "preserving": turn.preserving,
        "evidence": turn.evidence,
        "lost_to": turn.lost_to,
        "divergence": None if turn.divergence is None else divergence_json(turn.divergence),
    }


def _bounds(bounds: Bounds | None) -> dict[str, int] | None:
    """Both ends, equal where the figure is exact."""
    return None if bounds is None else {"low": bounds.low, "high": bounds.high}
