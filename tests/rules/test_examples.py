"""Every rule's bad example shows the fault, and its repaired twin does not."""

from __future__ import annotations

import pytest

from templatefix.api import CheckOptions
from templatefix.checking import check
from templatefix.findings.outcome import Report
from templatefix.rules import ORDER, RULES
from templatefix.rules.rule import Rule
from templatefix.source import ChatTemplate, TokenizerRef
from tests.example import EXAMPLE

#: These need the ids of the model's own tokenizer.
_NEEDS_IDS = {"TF105", "TF108"}


def _report(rule: Rule, text: str) -> Report:
    tokenizer = (
        TokenizerRef("example", EXAMPLE, EXAMPLE / "tokenizer.json")
        if rule.code in _NEEDS_IDS
        else None
    )
    template = ChatTemplate(
        "example", "example.jinja", text, special_tokens=rule.special_tokens, tokenizer=tokenizer
    )
    return check(template, CheckOptions(kwargs=rule.kwargs))


@pytest.mark.parametrize("code", [code for code, rule in RULES.items() if rule.bad])
def test_the_bad_example_shows_the_fault(code: str) -> None:
    report = _report(RULES[code], RULES[code].bad)
    assert code in {finding.code for finding in report.findings}


@pytest.mark.parametrize("code", [code for code, rule in RULES.items() if rule.good])
def test_the_repaired_twin_does_not(code: str) -> None:
    report = _report(RULES[code], RULES[code].good)
    assert code not in {finding.code for finding in report.findings}
    assert report.verdict == "preserving"


@pytest.mark.parametrize("code", RULES)
def test_a_rule_says_what_it_is(code: str) -> None:
    rule = RULES[code]
    assert rule.code == code
    assert rule.summary
    assert not rule.summary.endswith(".")
    assert len(rule.why.split()) > 30


def test_the_order_of_classification_names_rules_with_predicates() -> None:
    assert all(RULES[code].holds is not None for code in ORDER)
    assert {code for code, rule in RULES.items() if rule.holds is not None} == set(ORDER)
