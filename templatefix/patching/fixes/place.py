"""Where an edit can be made: expressions by the line of a fault, and text around a character."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from templatefix.syntax import Template

_SIMPLE = (nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Const, nodes.Filter)


def atom(template: Template, node: nodes.Expr) -> str:
    """The source of an expression, in parentheses where an operator could tear it apart."""
    text = template.text[slice(*template.outer_span(node))]
    simple = isinstance(node, _SIMPLE) or template.outer_span(node) != template.span(node)
    return text if simple else f"({text})"


def near_line(template: Template, line: int) -> Iterator[nodes.Expr]:
    """Expressions that may have failed on a line: those that stand there, then their neighbours.

    Jinja knows the line of a statement only, and takes printed text in a row for one statement.
    """
    there, around = [], []
    for place in template.places:
        if not isinstance(place.node, nodes.Expr):
            continue
        start, end = template.span(place.node)
        first, last = template.position(start).line, template.position(max(start, end - 1)).line
        if first <= line <= last:
            there.append(place.node)
            continue
        statement = _statement(template, place.node)
        if statement is not None:
            start, end = _extent(template, statement)
            if template.position(start).line <= line <= template.position(end).line:
                around.append(place.node)
    yield from there
    yield from around


def _statement(template: Template, node: nodes.Node) -> nodes.Node | None:
    """The printing statement in which an expression stands."""
    while id(node) in template.parents:
        parent = template.parents[id(node)].parent
        if isinstance(parent, nodes.Output):
            return parent
        if not isinstance(parent, nodes.Expr):
            return None
        node = parent
    return None


def _extent(template: Template, output: nodes.Node) -> tuple[int, int]:
    spans = [template.span(child) for child in output.iter_child_nodes()]
    return min(span.start for span in spans), max(span.end for span in spans)
