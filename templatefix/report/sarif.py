"""SARIF 2.1.0, as OASIS specifies it: the same check always gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from templatefix.findings.finding import Finding, Location
from templatefix.findings.outcome import Fault, Hidden, Report
from templatefix.report.edition import (
    FAULTS,
    READ_BUT_BROKEN,
    Edition,
    gravest_first,
    in_its_own_file,
    place,
)
from templatefix.report.json_report import to_json
from templatefix.report.visible import visible, without_surrogates

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_FINGERPRINT = "templatefix/v1"


class RuleText(Protocol):
    """What SARIF says about a rule."""

    @property
    def name(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def why(self) -> str: ...


def sarif_report(reports: Sequence[Report], edition: Edition, rules: Mapping[str, RuleText]) -> str:
    """The log as text that ends in a newline. ``rules`` are all rules, by code."""
    codes = sorted(set(rules) | {code for report in reports for code in _codes(report)})
    index = {code: number for number, code in enumerate(codes)}
    names = dict(FAULTS)
    names |= {finding.code: finding.name for report in reports for finding in report.findings}
    names |= {each.finding.code: each.finding.name for report in reports for each in report.hidden}
    unusable = [report for report in reports if _is_unusable(report)]
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "templatefix",
                        "version": edition.tool_version,
                        "rules": [_descriptor(code, rules, names) for code in codes],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": not unusable,
                        "toolExecutionNotifications": [
                            _notification(report, report.fault)
                            for report in unusable
                            if report.fault is not None
                        ],
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "results": [each for report in reports for each in _results(report, index)],
                "properties": {
                    "presentation": edition.presentation,
                    "renderer": edition.renderer,
                    "clock": edition.clock,
                },
            }
        ],
    }
    return without_surrogates(to_json(_clean(log))) + "\n"


def _clean(value: Any) -> Any:
    """The log without lone surrogates: many JSON readers refuse their escapes."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {without_surrogates(str(key)): _clean(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(each) for each in value]
    return value


def _is_unusable(report: Report) -> bool:
    return report.fault is not None and report.fault.code not in READ_BUT_BROKEN


def _codes(report: Report) -> list[str]:
    codes = [finding.code for finding in report.findings]
    codes += [hidden.finding.code for hidden in report.hidden]
    return codes + ([report.fault.code] if report.fault is not None else [])


def _descriptor(
    code: str, rules: Mapping[str, RuleText], names: Mapping[str, str]
) -> dict[str, Any]:
    rule = rules.get(code)
    if rule is None:
        return {"id": code, "name": _pascal(names.get(code, code))}
    return {
        "id": code,
        "name": _pascal(rule.name),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\n\ntemplatefix explain {code}"},
        "defaultConfiguration": {"level": _LEVELS.get(rule.severity, "warning")},
    }


def _pascal(name: str) -> str:
    """SARIF wants names like ``DroppedReasoning``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("-"))


def _results(report: Report, index: Mapping[str, int]) -> list[dict[str, Any]]:
    results = []
    fault = report.fault
    shown = gravest_first(report.findings)
    reported = {finding.code for finding in shown}
    if fault is not None and not _is_unusable(report) and fault.code not in reported:
        results.append(
            {
                "ruleId": fault.code,
                "ruleIndex": index[fault.code],
                "level": "error",
                "message": {"text": _sentence(fault)},
                "locations": [_file(report)],
            }
        )
    results += [_result(finding, report, index) for finding in shown]
    return results + [_suppressed(hidden, report, index) for hidden in report.hidden]


def _result(finding: Finding, report: Report, index: Mapping[str, int]) -> dict[str, Any]:
    own_file = in_its_own_file(report)
    text = [visible(finding.message)]
    if finding.line is not None and not own_file:
        text.append(f"(template line {finding.line}, column {finding.column})")
    if finding.explanation and finding.explanation != finding.message:
        text.append(visible(finding.explanation))
    notes = [each.note for each in finding.locations if each.note]
    text += [f"[{visible(note)}]" for note in notes[:1]]
    if finding.fix is not None:
        text.append(f"Fix: {visible(finding.fix.text)}")
    first, others = finding.locations[:1], finding.locations[1:]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": " ".join(text)},
        "locations": [_place(report, first[0]) if first and own_file else _file(report)],
        "partialFingerprints": {_FINGERPRINT: finding.fingerprint},
    }
    if others and own_file:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": visible(each.note or each.role)}}
            | _place(report, each)
            for number, each in enumerate(others, start=1)
        ]
    properties = {
        "confidence": finding.confidence,
        "detail": finding.detail or None,
        "template": report.template_name,
        "kwargs": dict(finding.kwargs) or None,
        "client": finding.client,
        "scenario": finding.scenario,
        "turn": finding.turn,
        "lostTokens": finding.lost_tokens,
        "approximateTokens": report.tokenizer_approximate,
        "also": list(finding.also) or None,
        "fix": None if finding.fix is None else finding.fix.text,
    }
    result["properties"] = {key: value for key, value in properties.items() if value is not None}
    return result


def _suppressed(hidden: Hidden, report: Report, index: Mapping[str, int]) -> dict[str, Any]:
    kind = "inSource" if hidden.by == "suppression" else "external"
    suppression = {"kind": kind}
    if hidden.reason:
        suppression["justification"] = hidden.reason
    return _result(hidden.finding, report, index) | {"suppressions": [suppression]}


def _place(report: Report, location: Location) -> dict[str, Any]:
    region = {
        "startLine": location.line,
        "startColumn": location.column,
        "endLine": location.end_line,
        "endColumn": location.end_column,
    }
    return {"physicalLocation": _file(report)["physicalLocation"] | {"region": region}}


def _file(report: Report) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(report.display)}}}


def _uri(display: str) -> str:
    """A URI reference: relative for a relative path, ``file:`` for an absolute one."""
    display = without_surrogates(display)
    path = Path(display)
    if path.is_absolute():
        return path.as_uri()
    # "./" keeps a colon in the first part from being read as a scheme.
    quoted = quote(path.as_posix())
    return f"./{quoted}" if ":" in quoted.partition("/")[0] else quoted


def _notification(report: Report, fault: Fault) -> dict[str, Any]:
    return {
        "descriptor": {"id": fault.code},
        "level": "error",
        "message": {"text": f"{visible(place(report))}: {_sentence(fault)}"},
    }


def _sentence(fault: Fault) -> str:
    return visible(fault.message + (f" ({fault.hint})" if fault.hint else ""))
