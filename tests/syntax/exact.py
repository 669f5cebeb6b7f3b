"""Whether spans are exact: the text that each covers parses to the node that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import nodes
from jinja2.parser import Parser

from templatefix.syntax import Place, Template
from templatefix.syntax.template import parsing_environment

_STATEMENTS = (
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


def _expressions(template: Template) -> Iterator[Place]:
    for place in template.places:
        if (
            isinstance(place.node, nodes.Expr)
            and not isinstance(place.node, (nodes.TemplateData, nodes.NSRef))
            and getattr(place.node, "ctx", "load") == "load"
            and not isinstance(place.node, nodes.ExtensionAttribute)
        ):
            yield place


def _reparsed(template: Template, place: Place) -> nodes.Node | None:
    source = template.source(place.node)
    environment = parsing_environment()
    if place.field == "iter":  # "for x in a if b": an inline if has to stand in parentheses
        source = template.text[slice(*template.outer_span(place.node))]
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


def _generated_calls(template: Template) -> set[int]:
    return {
        id(place.node)
        for place in template.places
        if isinstance(place.node, nodes.Call)
        and isinstance(place.node.node, nodes.ExtensionAttribute)
    }


def _is_named_not(node: nodes.Node) -> bool:
    """Whether a name in an expression is ``not``, which Jinja takes for one behind ``~`` only."""
    names = [node] if isinstance(node, nodes.Name) else node.find_all(nodes.Name)
    return any(name.name == "not" for name in names)


def check_spans(template: Template) -> int:
    """How many expressions were looked at."""
    checked = check_expressions(template)
    check_statements(template)
    check_bodies(template)
    return checked


def check_expressions(template: Template) -> int:
    checked = 0
    made_up = _generated_calls(template)
    for place in _expressions(template):
        if id(place.node) not in made_up and not _is_named_not(place.node):
            assert _reparsed(template, place) == place.node, template.source(place.node)
            checked += 1
    return checked


def check_statements(template: Template) -> None:
    environment = parsing_environment()
    for node, parent, field in template.places:
        if isinstance(node, nodes.TemplateData):
            assert template.source(node) == node.data
        elif field == "elif_":
            assert re.match(r"\{%[-+]?\s*elif\b", template.source(node))
        elif isinstance(node, _STATEMENTS):
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
