"""The JSON report says what its schema says, in valid UTF-8."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from templatefix.findings.outcome import Hidden, Report
from templatefix.report.json_report import json_report
from tests.report.samples import EDITION, clean, finding, info, report, run, traffic, unreadable

REPORTS = [
    report(),
    clean(template_name="tool_use", attention="hybrid", parsers=("qwen3", None)),
    unreadable(),
    clean(verdict="not-evaluated", runs=(), skipped="not a chat template"),
    report(findings=(info(),), hidden=(Hidden(finding(), "suppression", "known"),)),
    report(runs=(), findings=(finding(requests=2),), recorded=traffic()),
]


def parsed(*reports: Report, full: bool = False) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json_report(reports, EDITION, full=full))
    return document


def schema() -> dict[str, Any]:
    text = files("templatefix.report").joinpath("schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@pytest.mark.parametrize("full", [False, True])
def test_every_report_follows_the_schema(full: bool) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(parsed(*REPORTS, full=full), schema())


def test_the_schema_names_every_key() -> None:
    """A key that is written but not described is a promise nobody made."""
    strict = json.loads(
        json.dumps(schema()).replace(
            '"properties":', '"additionalProperties": false, "properties":'
        )
    )
    jsonschema.validate(parsed(*REPORTS, full=True), strict)


def test_turns_are_kept_for_runs_that_lose_or_were_asked_for() -> None:
    runs = (
        run("breaks"),
        run("holds", preserving=True),
        run("asked", preserving=True, requested=True),
        run("client", preserving=None, lost_to="client"),
        run("unknown", preserving=None),
    )

    def shown(full: bool) -> set[str]:
        [only] = parsed(report(runs=runs), full=full)["reports"]
        return {each["id"] for each in only["runs"] if each["turns"]}

    assert shown(False) == {"breaks", "asked", "client"}
    assert shown(True) == {each.id for each in runs}


def test_findings_come_gravest_first() -> None:
    [only] = parsed(report(findings=(info(), finding())))["reports"]
    assert [each["severity"] for each in only["findings"]] == ["error", "info"]


def test_values_that_json_cannot_write_do_not_break_it() -> None:
    kwargs = {"odd": "\ud800", "set": {1}, "inf": float("inf"), "tuple": (1, 2)}
    text = json_report([report(findings=(finding(kwargs=kwargs),))], EDITION)
    text.encode("utf-8")
    found = json.loads(text)["reports"][0]["findings"][0]["kwargs"]
    assert found == {"odd": "\ud800", "set": ["1"], "inf": "inf", "tuple": [1, 2]}


def test_the_report_ends_in_one_newline_and_is_reproducible() -> None:
    assert json_report(REPORTS, EDITION) == json_report(REPORTS, EDITION)
    assert json_report([], EDITION).endswith("}\n")
