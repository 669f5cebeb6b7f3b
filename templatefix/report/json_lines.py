"""Reports as JSON lines: each the object that the JSON report has for it, with what it was made of.

``content_sha256`` is that of the template and what belongs to it, ``options_sha256`` that of all
options that decide what is reported: where both are the same, so is the rest of the line.
"""

from __future__ import annotations

import json
from typing import Any

from templatefix.findings.outcome import Report
from templatefix.report.edition import Edition
from templatefix.report.json_report import SCHEMA_VERSION, report_json, to_json

#: How every line begins.
BEGINNING = f'{{"schema": {SCHEMA_VERSION}, "tool_version": "'.encode("ascii")


def report_line(
    report: Report,
    edition: Edition,
    *,
    full: bool,
    content_sha256: str | None,
    options_sha256: str,
) -> bytes:
    """One line, with its end."""
    document: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "tool_version": edition.tool_version,
        "presentation": edition.presentation,
        "clock": edition.clock,
        "content_sha256": content_sha256,
        "options_sha256": options_sha256,
        **report_json(report, full=full),
    }
    return to_json(document, indent=None).encode("utf-8", "backslashreplace") + b"\n"


def parse_line(line: bytes) -> dict[str, Any]:
    """A line back as an object with the keys above. Raises ``ValueError`` for another one."""
    if not line.startswith(BEGINNING):
        raise ValueError("no line of a report")
    document = json.loads(line)
    if not isinstance(document, dict) or not document.keys() >= _KEYS:
        raise ValueError("no line of a report")
    return document


_KEYS = {
    "content_sha256",
    "options_sha256",
    "target",
    "file",
    "template_name",
    "verdict",
    "error",
    "findings",
    "recorded",
}
