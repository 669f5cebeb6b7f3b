"""SARIF: the structure that section 3 of the specification requires, and nothing by chance."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from templatefix.findings.outcome import Hidden, Report
from templatefix.report.sarif import sarif_report
from templatefix.rules import RULES
from tests.report.samples import EDITION, clean, finding, info, report, unreadable

_MESSAGE = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "minLength": 1}},
}
_POSITIVE = {"type": "integer", "minimum": 1}
_LOCATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["physicalLocation"],
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "message": _MESSAGE,
        "physicalLocation": {
            "type": "object",
            "additionalProperties": False,
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["uri"],
                    "properties": {
                        "uri": {"type": "string", "pattern": "^[A-Za-z0-9_.!~*'();/?:@&=+$,%#-]+$"}
                    },
                },
                "region": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["startLine"],
                    "properties": dict.fromkeys(
                        ("startLine", "startColumn", "endLine", "endColumn"), _POSITIVE
                    ),
                },
            },
        },
    },
}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
#: The part of SARIF 2.1.0 that we write; what is not listed may not be written.
SUBSET: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "pattern": "^https://"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "additionalProperties": False,
                                            "required": ["id"],
                                            "properties": {
                                                "id": {"type": "string"},
                                                "name": {"type": "string", "pattern": "^[A-Z]"},
                                                "shortDescription": _MESSAGE,
                                                "fullDescription": _MESSAGE,
                                                "help": _MESSAGE,
                                                "defaultConfiguration": {
                                                    "type": "object",
                                                    "properties": {"level": _LEVEL},
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "invocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["executionSuccessful"],
                            "properties": {
                                "executionSuccessful": {"type": "boolean"},
                                "toolExecutionNotifications": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["message"],
                                        "properties": {
                                            "message": _MESSAGE,
                                            "level": _LEVEL,
                                            "descriptor": {"required": ["id"]},
                                        },
                                    },
                                },
                            },
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "properties": {"type": "object"},
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["message", "ruleId", "locations"],
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": _LEVEL,
                                "message": _MESSAGE,
                                "locations": {"type": "array", "items": _LOCATION},
                                "relatedLocations": {
                                    "type": "array",
                                    "uniqueItems": True,
                                    "items": _LOCATION,
                                },
                                "partialFingerprints": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                                "suppressions": {
                                    "type": "array",
                                    "items": {
                                        "required": ["kind"],
                                        "properties": {"kind": {"enum": ["inSource", "external"]}},
                                    },
                                },
                                "properties": {"type": "object"},
                            },
                        },
                    },
                },
            },
        },
    },
}

REPORTS = [
    report(findings=(info(), finding())),
    clean(),
    unreadable(),
    unreadable("broken.jinja", "TF902"),
    report(display="a dir/tokenizer_config.json", template_name="tool_use"),
    report(findings=(finding(locations=()),), display="/abs/olute.jinja"),
    report(
        findings=(),
        hidden=(Hidden(finding(), "suppression", "known"), Hidden(info(), "baseline")),
    ),
]


def sarif(*reports: Report) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(sarif_report(reports, EDITION, RULES))
    jsonschema.validate(log, SUBSET)
    [run] = log["runs"]
    assert isinstance(run, dict)
    return run


def test_all_kinds_of_reports_keep_to_the_specification() -> None:
    run = sarif(*REPORTS)
    identifiers = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert identifiers == sorted(set(identifiers))
    assert all(identifiers[each["ruleIndex"]] == each["ruleId"] for each in run["results"])


def test_the_same_reports_give_the_same_bytes() -> None:
    assert sarif_report(REPORTS, EDITION, RULES) == sarif_report(REPORTS, EDITION, RULES)


def test_levels_follow_severities_and_the_gravest_comes_first() -> None:
    levels = [each["level"] for each in sarif(report(findings=(info(), finding())))["results"]]
    assert levels == ["error", "note"]


def test_a_template_inside_another_file_has_no_region() -> None:
    [result] = sarif(report(display="tokenizer_config.json"))["results"]
    assert "region" not in result["locations"][0]["physicalLocation"]
    assert "template line 3, column 16" in result["message"]["text"]
    assert "relatedLocations" not in result


def test_an_unusable_target_is_a_notification_and_a_syntax_error_a_result() -> None:
    run = sarif(unreadable(), unreadable("broken.jinja", "TF902"))
    [invocation] = run["invocations"]
    assert invocation["executionSuccessful"] is False
    [notification] = invocation["toolExecutionNotifications"]
    assert notification["message"]["text"].startswith("nowhere.jinja: no such file")
    assert [each["ruleId"] for each in run["results"]] == ["TF902"]
    assert sarif(clean())["invocations"][0]["executionSuccessful"] is True


def test_hidden_findings_say_who_accepted_them() -> None:
    hidden = (Hidden(finding(), "suppression", "known"), Hidden(info(), "baseline"))
    results = sarif(report(findings=(), hidden=hidden))["results"]
    assert [each["suppressions"] for each in results] == [
        [{"kind": "inSource", "justification": "known"}],
        [{"kind": "external"}],
    ]


@pytest.mark.parametrize(
    ("display", "uri"),
    [
        ("a dir/é.jinja", "a%20dir/%C3%A9.jinja"),
        ("<stdin>", "%3Cstdin%3E"),
        ("/abs/x.jinja", "file:///abs/x.jinja"),
        ("c:x.jinja", "c%3Ax.jinja"),
        ("Qwen/Qwen3-8B/chat_template.jinja", "Qwen/Qwen3-8B/chat_template.jinja"),
    ],
)
def test_files_are_uri_references(display: str, uri: str) -> None:
    [result] = sarif(report(display=display))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_lone_surrogates_and_controls_are_gone() -> None:
    evil = "\ud800\x1b[31m\u202e"
    text = sarif_report(
        [report(display=evil, findings=(finding(message=evil, kwargs={evil: evil}),))],
        EDITION,
        RULES,
    )
    json.loads(text.encode("utf-8"))
    assert "\\ud800" not in text.replace("\\\\ud800", "")
    assert "\x1b" not in text
