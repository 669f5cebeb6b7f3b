"""Names that no server supplies and that the template relies on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jinja2 import nodes

from templatefix.syntax.names import (
    STRUCTURE_FILTERS,
    assigned_names,
    is_condition,
    outside_loads,
    outside_names,
    tests_presence,
)
from templatefix.syntax.template import Template


class UnknownName(NamedTuple):
    """A name and the first place where its absence hurts; line and column are 1-based."""

    name: str
    line: int
    column: int


def unknown_names(
    template: Template, special_tokens: Iterable[str] = ()
) -> tuple[UnknownName, ...]:
    """Undeclared names that are printed, iterated, called, looked into or concatenated.

    A name whose presence or truth the template tests anywhere is an optional kwarg, and a name
    that the template sets on some path is a local: neither is unknown.
    """
    assigned = assigned_names(template)
    found = []
    for name in outside_names(template).difference(special_tokens, assigned):
        uses = outside_loads(template, name)
        if any(tests_presence(template, use) or is_condition(template, use) for use in uses):
            continue
        hurt = next((use for use in uses if _relies_on(template, use)), None)
        if hurt is not None:
            found.append(UnknownName(name, *template.position(template.span(hurt).start)))
    return tuple(sorted(found, key=lambda unknown: (unknown.line, unknown.column)))


def _relies_on(template: Template, use: nodes.Name) -> bool:
    node: nodes.Node = use
    parent, field = template.parents[id(node)].parent, template.parents[id(node)].field
    while isinstance(parent, nodes.Filter) and field == "node":
        if parent.name in STRUCTURE_FILTERS or parent.name == "tojson":
            return True
        node = parent
        parent, field = template.parents[id(node)].parent, template.parents[id(node)].field
    if isinstance(parent, (nodes.Getattr, nodes.Getitem, nodes.Call)):
        return field == "node"
    if isinstance(parent, nodes.For):
        return field == "iter"
    return isinstance(parent, (nodes.Output, nodes.Concat, nodes.BinExpr)) and not isinstance(
        parent, (nodes.And, nodes.Or)
    )
