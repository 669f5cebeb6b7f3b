"""What of a folded template need not be evaluated again for every piece of a conversation."""

from __future__ import annotations

import pytest

from templatefix.patching.ladder.fold_head import head_end
from templatefix.syntax import parse

REST = "{% set found = namespace(any=false) %}{% for message in messages %}{% endfor %}"
GIVEN = frozenset({"messages", "tools"})


def head(text: str) -> str:
    return text[: head_end(parse(text), GIVEN)]


@pytest.mark.parametrize(
    "text",
    [
        "{% set tag = '<a>' %}",
        "{% macro a(x) %}{{ x }}{% endmacro %}",
        "{% macro a(x) %}{{ b(x) }}{% endmacro %}{% macro b(x) %}{{ a(x) }}{% endmacro %}",
        "{% macro a(x) %}{% set found = x %}{{ found }}{% endmacro %}",
        "{% macro a(x) %}{% if x %}{% set found = x %}{{ found }}{% endif %}{% endmacro %}",
        "{% macro a(x) %}{% for message in x %}{{ message }}{{ loop.index }}{% endfor %}"
        "{% endmacro %}",
        "{% macro a(x) %}{% set found = namespace(any=1) %}{% set found.any = x %}{% endmacro %}",
    ],
)
def test_constants_and_macros_stand_before_the_rest(text: str) -> None:
    assert head(text + REST) == text


@pytest.mark.parametrize(
    "text",
    [
        "{% macro a(x) %}{{ messages }}{% endmacro %}",
        "{% macro a(x) %}{{ found.any }}{% endmacro %}",
        "{% macro a(x) %}{% if x %}{% set found = x %}{% endif %}{{ found }}{% endmacro %}",
        "{% macro a(x) %}{% set found.any = x %}{% endmacro %}",
        "{% macro a(x) %}{% set y %}{{ found }}{% endset %}{{ y }}{% endmacro %}",
        "{% macro a(x) %}{% for y in x if found %}{% endfor %}{% endmacro %}",
        "{% macro a(x=found) %}{{ x }}{% endmacro %}",
        "{% set tag = tools %}",
    ],
)
def test_what_reads_the_conversation_does_not(text: str) -> None:
    assert head(text + REST) == ""


def test_a_macro_that_calls_one_which_stays_behind_stays_as_well() -> None:
    kept = "{% set tag = '<a>' %}"
    calls = "{% macro a(x) %}{{ b(x) }}{% endmacro %}"
    reads = "{% macro b(x) %}{{ messages }}{% endmacro %}"
    assert head(kept + calls + reads + REST) == kept
