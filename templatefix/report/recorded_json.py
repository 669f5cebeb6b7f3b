"""Recorded traffic in the JSON report."""

from __future__ import annotations

from typing import Any

from templatefix.findings.recorded import OWNERS, RecordedTraffic, TrafficLoss


def recorded_json(traffic: RecordedTraffic) -> dict[str, Any]:
    recovery = traffic.recovery
    return {
        "file": traffic.file,
        "lines": traffic.lines,
        "requests": traffic.requests,
        "conversations": traffic.conversations,
        "continued": traffic.continued,
        "branches": traffic.branches,
        "closed_early": traffic.closed,
        "completions": dict(traffic.completions),
        "cut": traffic.cut,
        "prompt_tokens": traffic.prompt_tokens,
        "reused_tokens": traffic.reused_tokens,
        "ideal_tokens": traffic.ideal_tokens,
        "lost_tokens": traffic.lost_tokens,
        "lost_to": {owner: traffic.lost_to(owner) for owner in OWNERS},
        "losses": [_loss(loss) for loss in traffic.losses],
        "other_prompts": traffic.other_prompts,
        "skipped_lines": traffic.skipped_lines,
        "skipped": [{"line": each.line, "why": each.why} for each in traffic.skipped],
        "set_aside": [
            {"why": each.why, "requests": each.requests, "example": each.example}
            for each in traffic.set_aside
        ],
        "recovery": None
        if recovery is None
        else {
            "policy": recovery.policy,
            "status": recovery.status,
            "recovered_tokens": recovery.recovered_tokens,
            "saved_prefill_tokens": recovery.saved_prefill_tokens,
        },
    }


def _loss(loss: TrafficLoss) -> dict[str, Any]:
    return {
        "owner": loss.owner,
        "what": loss.what,
        "line": loss.line,
        "column": loss.column,
        "lost_tokens": loss.lost_tokens,
        "shared_tokens": loss.shared_tokens,
        "requests": loss.requests,
        "example": loss.example,
    }
