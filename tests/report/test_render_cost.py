"""What a fold costs to render, in the text and in the JSON of a repair."""

from __future__ import annotations

import json
from typing import Any

import pytest

from templatefix.findings.repair import RenderCost, RepairReport
from templatefix.report.edition import Edition
from templatefix.report.patch_json import patch_json
from templatefix.report.patch_text import Delivery, patch_text


def report(cost: RenderCost | None) -> RepairReport:
    return RepairReport(
        "t", "t.jinja", None, "lossless", 16, "patched", "0" * 64, "", "x", rung=5, render_cost=cost
    )


def text(cost: RenderCost | None) -> str:
    return patch_text(report(cost), Delivery("done", None, "again"), quiet=False, verbose=False)


def document(cost: RenderCost | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(patch_json(report(cost), Edition("1", "v", "jinja", ""), {}))
    return found


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [(0.4, "0.40 ms a turn, 5.2x"), (0.41, "0.41 ms a turn, above 0.4 ms, 5.2x")],
)
def test_the_text_says_what_a_turn_takes_and_whether_that_is_too_much(
    milliseconds: float, told: str
) -> None:
    line = (
        "  rendering at 100 turns: 45 steps a turn (the original's: 9); measured here, "
        f"{told} the original's time\n"
    )
    assert line in text(RenderCost(100, 45, 9, milliseconds, 5.2))


def test_the_json_has_all_figures() -> None:
    assert document(RenderCost(100, 45, 9, 0.25, 5.2))["render_cost"] == {
        "turns": 100,
        "steps_per_turn": 45,
        "original_steps_per_turn": 9,
        "milliseconds_per_turn": 0.25,
        "ratio": 5.2,
    }


def test_what_is_no_fold_has_no_cost() -> None:
    assert document(None)["render_cost"] is None
    assert "rendering at" not in text(None)
