"""Every span is exact: the text it covers parses to the node that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jinja2 import nodes
from jinja2.parser import Parser

from templatefix.syntax import Place, Template, normalise_newlines, parse
from templatefix.syntax.template import parsing_environment
from tests.corpus import corpus_directory, corpus_entries

STATEMENTS = (
    nodes.If,
    nodes.For,
    nodes.Macro,
    nodes.Assign,
    nodes.AssignBlock,
    nodes.CallBlock,
    nodes.FilterBlock,
    nodes.With,
    nodes.Break,
    nodes.Continue,
)

OWN = """\
{%- macro m(a, b=(1, 2)) -%}{{ a ~ b }}{%- endmacro %}\r
{% set x, y = (), [1, {'k': -z, 'l': not (a or b) and c}] %}
{% set block | trim | upper %} text {{ x }} {% endset %}
{{- (((a + b)) - c) * d ** 2 // +e % f }} {{ 'a' "b" ~ q|default((x), true)|trim|join(',') }}
{% for k, v in m.items() if v is not none recursive -%}
  {%- if k is defined and (v is not divisibleby 3) or k not in [1] -%} one
  {%- elif a < b <= c -%} {{ loop(v) }} {#- gone -#}
  {%- elif d -%}
  {%- else -%} {% break %} {% endif -%}
{%- else -%} none {% endfor %}
{{ f(*a, k=(v), **d)[1:][::2].x.0(1)|e is sameas true }}{{ a if b else c if d }}{{ -x.y|abs }}
{% call(q) m(1) %}{% filter upper|trim %}{{ (q) }}{% endfilter %}{% endcall %}
{% raw %} {{ not read }} {% endraw %}{% with w = 1 %}{{ w }}{% endwith %}
{% generation %}{{ x }}{% endgeneration %}{{ a and b and c or d or e }}{{ () }}{{ (1,) }}
{{ x is not y and a is divisibleby(2) }}{{ 'a' if x }}{{ a ~ (b ~ c) }}{{ caf\u00e9 }}
"""


def expressions(template: Template) -> Iterator[Place]:
    for place in template.places:
        if (
            isinstance(place.node, nodes.Expr)
            and not isinstance(place.node, (nodes.TemplateData, nodes.NSRef))
            and getattr(place.node, "ctx", "load") == "load"
            and not isinstance(place.node, nodes.ExtensionAttribute)
        ):
            yield place


def reparsed(template: Template, place: Place) -> nodes.Node | None:
    source = template.source(place.node)
    environment = parsing_environment()
    if place.field == "iter":  # "for x in a if b": an inline if would end the loop's source
        return Parser(environment, source, state="variable").parse_tuple(with_condexpr=False)
    if isinstance(place.node, nodes.Slice):
        subscript = Parser(environment, f"x[{source}]", state="variable").parse_tuple()
        assert isinstance(subscript, nodes.Getitem)
        return subscript.arg
    parser = Parser(environment, source + "\n}}", state="variable")
    innermost: nodes.Node | None = place.node
    while isinstance(innermost, nodes.Filter):
        innermost = innermost.node
    node = (
        parser.parse_filter(None, start_inline=not source.startswith("|"))
        if innermost is None
        else parser.parse_tuple()
    )
    assert parser.stream.current.type == "variable_end", source
    if isinstance(place.node, nodes.Test) and isinstance(node, nodes.Not):
        return node.node  # "x is not y" is one piece of source for two nodes
    return node


def generated_calls(template: Template) -> set[int]:
    return {
        id(place.node)
        for place in template.places
        if isinstance(place.node, nodes.Call)
        and isinstance(place.node.node, nodes.ExtensionAttribute)
    }


def check_expressions(template: Template) -> int:
    checked = 0
    made_up = generated_calls(template)
    for place in expressions(template):
        if id(place.node) not in made_up:
            assert reparsed(template, place) == place.node, template.source(place.node)
            checked += 1
    return checked


def check_statements(template: Template) -> None:
    environment = parsing_environment()
    for node, parent, field in template.places:
        if isinstance(node, nodes.TemplateData):
            assert template.source(node) == node.data
        elif field == "elif_":
            assert template.source(node).startswith(("{% elif", "{%- elif"))
        elif isinstance(node, STATEMENTS):
            assert environment.parse(template.source(node)).body == [node]
        elif isinstance(parent, nodes.Output) and isinstance(node, nodes.Expr):
            span = template.print_span(node)
            assert span is not None
            printed = environment.parse(template.text[span.start : span.end])
            assert printed == nodes.Template([nodes.Output([node])])


def check_bodies(template: Template) -> None:
    """Nothing of a body lies outside of its span, and its tags do."""
    for node, _, _ in template.places:
        for name in ("body", "else_"):
            body = getattr(node, name, None)
            if body:
                start, end = template.body_span(body)
                assert template.text[:start].endswith("}")
                assert template.text.startswith("{%", end)
                for child in body:
                    assert start <= template.span(child).start <= template.span(child).end <= end


def test_our_own_template_of_hard_cases_has_exact_spans() -> None:
    template = parse(OWN)
    assert template.ast == parsing_environment().parse(OWN)
    assert check_expressions(template) > 130
    check_statements(template)
    check_bodies(template)


@pytest.mark.corpus
@pytest.mark.skipif(corpus_directory() is None, reason="no corpus of real templates")
def test_every_real_template_has_exact_spans() -> None:
    checked = 0
    for entry in corpus_entries():
        template = parse(entry.text)
        assert template.ast == parsing_environment().parse(template.text), entry.model_id
        checked += check_expressions(template)
        check_statements(template)
        check_bodies(template)
    assert checked > 20_000


def test_outer_spans_hold_the_parentheses() -> None:
    template = parse("{{ ((a + b)) * c }}")
    add = next(place.node for place in template.places if isinstance(place.node, nodes.Add))
    start, end = template.outer_span(add)
    assert template.text[start:end] == "((a + b))"
    assert template.source(add) == "a + b"


def test_an_operator_chain_starts_at_the_parenthesis_of_its_first_operand() -> None:
    template = parse("{{ (a) + b + (c) }}")
    chain = next(place.node for place in template.places if isinstance(place.node, nodes.Add))
    assert template.source(chain) == "(a) + b + (c)"


def test_positions_are_counted_from_one_in_normalised_text() -> None:
    text = "one\r\ntwo\r{{ three }}"
    template = parse(text)
    assert template.text == normalise_newlines(text) == "one\ntwo\n{{ three }}"
    name = next(place.node for place in template.places if isinstance(place.node, nodes.Name))
    assert tuple(template.position(template.span(name).start)) == (3, 4)
    assert template.source(name) == "three"
    assert template.lines.span_of_line(2, template.text) == (4, 7)


def test_nodes_keep_their_true_lines() -> None:
    template = parse("\n\n{% if a %}\n{{ b }}{% endif %}")
    lines = [place.node.lineno for place in template.places if isinstance(place.node, nodes.Name)]
    assert lines == [3, 4]
