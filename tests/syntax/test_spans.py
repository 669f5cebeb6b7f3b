"""Every span is exact: the text it covers parses to the node that it belongs to."""

from __future__ import annotations

import pytest
from jinja2 import nodes

from templatefix.syntax import normalise_newlines, parse
from templatefix.syntax.template import parsing_environment
from tests.corpus import corpus_directory, corpus_entries
from tests.syntax.exact import check_spans

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


def test_our_own_template_of_hard_cases_has_exact_spans() -> None:
    template = parse(OWN)
    assert template.ast == parsing_environment().parse(OWN)
    assert check_spans(template) > 130


def test_what_stands_below_a_node_is_what_jinja_finds_there() -> None:
    template = parse(OWN)
    for kind in (nodes.Node, nodes.Expr, nodes.Name, nodes.Output):
        for node in (template.ast, *(place.node for place in template.places)):
            below, found = template.below(node, kind), list(node.find_all(kind))
            assert list(map(id, below)) == list(map(id, found))


@pytest.mark.corpus
@pytest.mark.skipif(corpus_directory() is None, reason="no corpus of real templates")
def test_every_real_template_has_exact_spans() -> None:
    checked = 0
    for entry in corpus_entries():
        template = parse(entry.text)
        assert template.ast == parsing_environment().parse(template.text), entry.model_id
        checked += check_spans(template)
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
