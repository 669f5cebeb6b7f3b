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
    if all(name.name != "not" for name in template.below(template.ast, nodes.Name)):
        check_spans(template)  # the name "not" is one after an operator, and none by itself


def _refusal(text: str) -> str | None:
    """What Jinja says of a text that it does not parse."""
    try:
        parsing_environment().parse(text)
    except TemplateSyntaxError as fault:
        return f"line {fault.lineno}: {fault.message}"
    return None


def _lines(root: nodes.Node) -> Iterator[tuple[type[nodes.Node], int | None]]:
    return ((type(node), node.lineno) for node in root.find_all(nodes.Node))
