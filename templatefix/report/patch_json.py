"""The JSON report of a repair, version 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from templatefix.findings.repair import Refusal, RenderCost, RepairReport
from templatefix.report.edition import Edition
from templatefix.report.json_report import to_json

SCHEMA_VERSION = 1


def patch_json(report: RepairReport, edition: Edition, versions: Mapping[str, str]) -> str:
    """The document as text that ends in a newline.

    ``versions`` are those of the libraries that the proof rests on.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "tool_version": edition.tool_version,
        "presentation": edition.presentation,
        "renderer": edition.renderer,
        "clock": edition.clock,
        "versions": dict(versions),
        "target": report.target,
        "file": report.display,
        "template_name": report.template_name,
        "policy": report.policy,
        "block_size": report.block_size,
        "tokenizer": {
            "source": report.tokenizer_source,
            "approximate": report.tokenizer_approximate,
        },
        "status": report.status,
        "original_sha256": report.original_sha256,
        "patched_sha256": report.patched_sha256,
        "rung": report.rung,
        "changes": list(report.changes),
        "kwargs": report.flag_kwargs,
        "fixes": [
            {
                "code": each.code,
                "status": each.status,
                "changes": list(each.changes),
                "inputs_tried": each.tried,
                "left": each.left,
            }
            for each in report.fixes
        ],
        "contract": {
            "clauses": [
                {
                    "clause": each.clause,
                    "passed": each.passed,
                    "tried": each.tried,
                    "notes": list(each.notes),
                }
                for each in report.clauses
            ],
            "seed": report.seed,
            "examples": report.examples,
        },
        "core_breaks": {"before": report.broken, "excluded_by_policy": report.excluded},
        "remaining": [
            {
                "code": each.code,
                "run_id": each.run_id,
                "turn": each.turn,
                "lost_tokens": each.lost_tokens,
                "severity": each.severity,
                "edge": each.edge,
                "message": each.message,
                "runs": each.runs,
                "mode_switch": each.mode_switch,
                "note": each.note,
            }
            for each in report.remaining
        ],
        "unrepaired": [
            {
                "code": each.code,
                "run_id": each.run_id,
                "turn": each.turn,
                "lost_tokens": each.lost_tokens,
            }
            for each in report.unrepaired
        ],
        "failing": _refusal(report.failing) if report.failing else None,
        "trades": [
            {
                "kwargs": each.kwargs,
                "requests": each.requests,
                "extra_context_tokens": each.extra_context,
                "saved_prefill_tokens": each.saved_prefill,
            }
            for each in report.trades
        ],
        "render_cost": _cost(report.render_cost),
        "attempts_refused": [_refusal(each) for each in report.refusals],
        "passed_over": [{"rung": each.rung, "why": each.why} for each in report.passed_over],
    }
    return to_json(document) + "\n"


def _cost(cost: RenderCost | None) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "turns": cost.turns,
        "steps_per_turn": cost.steps,
        "original_steps_per_turn": cost.steps_before,
        "milliseconds_per_turn": cost.milliseconds,
        "ratio": cost.ratio,
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "rung": refusal.rung,
        "clause": refusal.clause,
        "message": refusal.message,
        "conversation": refusal.conversation,
    }
