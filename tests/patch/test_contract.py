"""Every clause of the contract fails a patch that is bad in just that way."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from templatefix.chat.given import scenario_of
from templatefix.check import CheckOptions
from templatefix.check.runs import modes_of
from templatefix.patch.bench import Bench
from templatefix.patch.contract import CLAUSES, Proof, c6, verify
from tests.corpus import corpus_entry
from tests.example import EXAMPLE
from tests.subjects import subject

POLICIES = ("lossless", "keep-reasoning")
ORIGINAL = (EXAMPLE / "chat_template.jinja").read_text("utf-8")

#: The example's branch for answers: how it is published, and how it is repaired by hand.
_PUBLISHED = """\
        {%- if loop.index0 > seen.question and (reasoning or loop.last) %}
            {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + text.lstrip('\\n') }}
        {%- else %}
            {{- text }}
        {%- endif %}
"""
_REPAIRED = """\
        {%- if GUARD(reasoning or loop.last and loop.index0 > seen.question) %}
            {{- '<think>' + ('' if reasoning.startswith('\\n') else '\\n') + reasoning
                + ('' if reasoning[1:].endswith('\\n') else '\\n') + '</think>'
                + ('' if text.startswith('\\n\\n') else '\\n\\n') + text }}
        {%- elif enable_thinking is defined and not enable_thinking %}
            {{- '<think>\\n\\n</think>\\n\\n' + text }}
        {%- else %}
            {{- text }}
        {%- endif %}
"""
assert _PUBLISHED in ORIGINAL


def repaired(policy: str) -> str:
    """The example, repaired by hand."""
    guard = "loop.index0 > seen.question and " if policy == "lossless" else ""
    return ORIGINAL.replace(_PUBLISHED, _REPAIRED.replace("GUARD", guard))


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


@lru_cache(maxsize=8)
def bench(text: str, policy: str) -> Bench:
    made = subject(text)
    return Bench(made, modes_of(made, CheckOptions()), policy, 16)


def judged(
    candidate: str, policy: str = "lossless", original: str = ORIGINAL, **more: Any
) -> Proof:
    examples = more.pop("max_examples", 0)
    return verify(
        bench(original, policy), candidate, max_examples=examples, seed=0, exhaustive=True, **more
    )


def broken(proof: Proof) -> list[str]:
    return [result.clause for result in proof.results if not result.passed]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_repair_by_hand_keeps_the_contract(policy: str) -> None:
    proof = judged(repaired(policy), policy, max_examples=60)
    assert [v.message for v in proof.violations] == []
    assert {result.clause for result in proof.results} == {
        name for name, _ in CLAUSES if name != "C8" or policy == "lossless"
    }
    assert all(result.tried > 0 for result in proof.results)
    assert proof.examples >= 60
