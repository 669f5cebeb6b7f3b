"""The parser reads expressions as Jinja's own does, for all that it takes a shorter way."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateSyntaxError, nodes

from templatefix.syntax import Unparsable, parse
from templatefix.syntax.template import parsing_environment
from tests.syntax.exact import check_spans

_OPERATORS = (
    *("or", "and", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "+", "-", "~", "*", "/"),
    *("//", "%", "**", ", ", " if ", "\n+", "or\n", "==\n", "| f(1) ~", "is not t or"),
)
_AROUND = (
    *("not {}", "not\n{}", "({})", "((\n{}))", "-{}", "+ {}", "{} if {} else {}", "{}[({}):]"),
    *("{} | trim", "{}\n| default({}, k={})", "{} is defined", "{} is not divisibleby {}"),
    *("f({}, *{})", "{}.x", "{}[{}]", "[{}, {}]", "{{1: {}}}", "({}, {})", "({},)"),
)
_leaves = st.sampled_from(("a", "b.c", "1", "2.5", "'s'", "'s' \"t\"", "none", "()", "x[0]"))


def _larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    chains = st.builds(
        lambda first, rest: " ".join((first, *(part for pair in rest for part in pair))),
        smaller,
        st.lists(st.tuples(st.sampled_from(_OPERATORS), smaller), min_size=1, max_size=4),
    )
    wrapped = st.builds(
        lambda form, parts: form.format(*parts),
        st.sampled_from(_AROUND),
        st.lists(smaller, min_size=3, max_size=3),
    )
    return chains | wrapped


_expressions = st.recursive(_leaves, _larger, max_leaves=12)
_FRAMES = (
    "{{{{ {} }}}}",
    "{{% if {} %}}{{% endif %}}",
    "{{% for x in {} %}}{{% endfor %}}",
    "{{% set ns.x = {} %}}",
)


@settings(max_examples=400, deadline=None)
@given(_expressions, st.sampled_from(_FRAMES))
def test_every_expression_has_the_tree_and_the_lines_that_jinja_gives_it(
    expression: str, frame: str
) -> None:
    text = frame.format(expression)
    refused = _refusal(text)
    if refused is not None:
        with pytest.raises(Unparsable, match=re.escape(refused)):
            parse(text)
        return
    expected = parsing_environment().parse(text)
    template = parse(text)
    assert template.ast == expected
    assert list(_lines(template.ast)) == list(_lines(expected))
    check_spans(template)


_SAMPLE = """\
{# a comment
of two lines #}
{%- for message in messages if message.role != 'system' -%}
  {{- '<|' ~ message['role'] + "|>" }}{% if message.content is string and not (a or b) %}
    {{ message.content | trim | default('', true) }}
    {% elif loop.last %}{% set ns.x = [1, {'k': 2.5}] %}
  {% else %}{% raw %}{{ nothing }}{% endraw %}{% macro m(x, y='z') %}{{ x[1:-1] }}{% endmacro %}
  {% endif %}
{% endfor %}
{{ m('a',
     y=none) }} the end
"""


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(_SAMPLE) - 1),
            st.integers(0, 3),
            st.sampled_from(("", "'", '"', "{{", "%}", "{% endif %}", ")", "{#", "$", "\n", "if")),
        ),
        min_size=1,
        max_size=2,
    )
)
def test_what_does_not_parse_is_refused_where_and_as_jinja_refuses_it(
    edits: list[tuple[int, int, str]],
) -> None:
    text = _SAMPLE
    for at, taken, put in edits:
        text = text[:at] + put + text[at + taken :]
    found = None
    try:
        parse(text)
    except Unparsable as fault:
        found = fault.message, fault.line
    assert found == _fault(text)


def test_what_comes_first_is_what_is_wrong() -> None:
    text = "{{ a }}\n{% if m['role] == 'user' %}\n{% endif %}\n{{ 'x' }}"
    with pytest.raises(Unparsable, match="expected token ',', got 'user'") as at:
        parse(text)
    assert at.value.line == 2


def _refusal(text: str) -> str | None:
    """What Jinja says of a text that it does not parse."""
    fault = _fault(text)
    return None if fault is None else f"line {fault[1]}: {fault[0]}"


def _fault(text: str) -> tuple[str, int] | None:
    """That, and the line."""
    try:
        parsing_environment().parse(text)
    except TemplateSyntaxError as fault:
        return fault.message or "", fault.lineno
    return None


def _lines(root: nodes.Node) -> Iterator[tuple[type[nodes.Node], int | None]]:
    return ((type(node), node.lineno) for node in root.find_all(nodes.Node))
