"""The list of rules in its formats, and one rule in full."""

from __future__ import annotations

import json

from templatefix.report.catalogue import catalogue, explanation
from templatefix.rules import RULES


def test_every_format_lists_every_rule_once() -> None:
    rules = list(RULES.values())
    listed = [line for line in catalogue(rules, "text").splitlines() if not line.startswith(" ")]
    assert [line.split()[:3] for line in listed] == [[r.code, r.name, r.severity] for r in rules]
    assert [each["code"] for each in json.loads(catalogue(rules, "json"))] == list(RULES)
    rows = catalogue(rules, "markdown").splitlines()
    assert len(rows) == len(rules) + 2
    assert {row.count("|") - row.count("\\|") for row in rows} == {5}


def test_an_explanation_holds_both_examples() -> None:
    for rule in RULES.values():
        text = explanation(rule)
        assert text.startswith(f"{rule.code} {rule.name} ({rule.severity})\n")
        assert " ".join(rule.summary.split()) in " ".join(text.split())
        for example in (rule.bad, rule.good):
            assert all(f"    {line}" in text for line in example.strip("\n").splitlines() if line)
