"""Workflow commands of GitHub Actions: findings appear beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterable

from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report
from templatefix.report.edition import FAULTS, gravest_first, in_its_own_file, place
from templatefix.report.visible import visible

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def github_report(reports: Iterable[Report]) -> str:
    """One command a line; nothing for a clean target."""
    return "".join(f"{command}\n" for report in reports for command in _commands(report))


def _commands(report: Report) -> list[str]:
    commands = []
    shown = list(report.findings)
    located = {finding.code for finding in shown if finding.line is not None}
    if report.fault is not None and report.fault.code not in located:
        fault = report.fault
        shown = [finding for finding in shown if finding.code != fault.code]
        hint = f" ({fault.hint})" if fault.hint else ""
        message = f"{place(report)}: {fault.message}{hint}"
        title = f"{fault.code} {FAULTS.get(fault.code, '')}".rstrip()
        commands.append(_command("error", {"file": report.display, "title": title}, [message]))
    return commands + [_of_finding(finding, report) for finding in gravest_first(shown)]


def _of_finding(finding: Finding, report: Report) -> str:
    properties = {"file": report.display}
    message = [finding.message]
    if finding.locations and in_its_own_file(report):
        first = finding.locations[0]
        properties |= {"line": str(first.line), "col": str(first.column)}
        # GitHub refuses columns that span lines.
        if first.end_line == first.line:
            properties |= {"endColumn": str(first.end_column)}
    elif finding.line is not None:
        message[0] += f" (template line {finding.line}, column {finding.column})"
    properties["title"] = f"{finding.code} {finding.name}"
    message += [location.note for location in finding.locations if location.note]
    if finding.explanation and finding.explanation != finding.message:
        message.append(finding.explanation)
    if finding.fix is not None:
        message.append(f"fix: {finding.fix.text}")
    return _command(_COMMANDS[finding.severity], properties, message)


def _command(name: str, properties: dict[str, str], message: list[str]) -> str:
    parts = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {parts}::{'%0A'.join(map(_data, message))}"


def _data(text: str) -> str:
    # Line breaks and control characters are gone before GitHub's own escapes are written.
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
