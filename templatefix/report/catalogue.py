"""The rules as a list, and one rule in full."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Protocol

from templatefix.report.json_report import to_json

_WIDTH = 88


class RuleText(Protocol):
    """What there is to read about a rule."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def bad(self) -> str: ...
    @property
    def good(self) -> str: ...


def catalogue(rules: Sequence[RuleText], output_format: str) -> str:
    """All rules as ``text``, ``json`` or ``markdown``."""
    if output_format == "json":
        return to_json([_entry(rule) for rule in rules]) + "\n"
    if output_format == "markdown":
        rows = [
            f"| {rule.code} | {rule.name} | {rule.severity} | {_cell(rule.summary)} |"
            for rule in rules
        ]
        header = ["| code | name | severity | what it says |", "| --- | --- | --- | --- |"]
        return "\n".join(header + rows) + "\n"
    longest = max((len(rule.name) for rule in rules), default=0)
    indent = " " * (len("TF000  ") + longest + len("  warning  "))
    lines: list[str] = []
    for rule in rules:
        first = f"{rule.code}  {rule.name:<{longest}}  {rule.severity:<7}  "
        lines += textwrap.wrap(
            rule.summary,
            max(_WIDTH, len(indent) + 40),
            initial_indent=first,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    return "".join(line + "\n" for line in lines)


def explanation(rule: RuleText) -> str:
    """What one rule says, why it matters, and its examples."""
    parts = [f"{rule.code} {rule.name} ({rule.severity})", *_paragraphs(rule.summary)]
    parts += _paragraphs(rule.why)
    for title, example in (("Reported:", rule.bad), ("Repaired:", rule.good)):
        if example.strip():
            parts += [title + "\n\n" + textwrap.indent(example.strip("\n"), "    ")]
    return "\n\n".join(parts) + "\n"


def _paragraphs(text: str) -> list[str]:
    return [
        textwrap.fill(" ".join(paragraph.split()), _WIDTH, break_on_hyphens=False)
        for paragraph in text.split("\n\n")
        if paragraph.strip()
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _entry(rule: RuleText) -> dict[str, str]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "summary": rule.summary,
        "why": rule.why.strip(),
        "bad": rule.bad,
        "good": rule.good,
    }
