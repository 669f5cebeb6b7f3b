"""Where a tool call's arguments are taken for a dict, or for text, without a look at them."""

from __future__ import annotations

from typing import NamedTuple

from jinja2 import nodes

from templatefix.syntax.carried import Carried
from templatefix.syntax.guards import guards, loop_around
from templatefix.syntax.span import Span
from templatefix.syntax.template import Template

_ASKS_FOR_TYPE = frozenset({"string", "mapping"})
_OF_DICTS = frozenset({"items", "keys", "values"})
_OF_DICTS_AS_FILTERS = frozenset({"items", "dictsort"})


class ArgumentsUse(NamedTuple):
    """A use of arguments, and what it takes them for: ``dict`` or ``text``."""

    span: Span
    taken_for: str


def unguarded_arguments(template: Template) -> tuple[ArgumentsUse, ...]:
    """Uses of arguments that fail, or print something else, for the other of their two types."""
    carried = Carried(template, frozenset({"arguments"}), changed=False)
    asked = [
        node
        for node, _, _ in template.placed(nodes.Test)
        if type(node) is nodes.Test
        and node.name in _ASKS_FOR_TYPE
        and carried.field(node.node) is not None
    ]
    found = []
    for node, _, _ in template.placed(nodes.Filter, nodes.Call, nodes.Add, nodes.Concat):
        taken_for = _taken_for(node, carried)
        if taken_for is not None and not _is_guarded(template, node, asked):
            found.append(ArgumentsUse(template.span(node), taken_for))
    return tuple(found)


def _taken_for(node: nodes.Node, carried: Carried) -> str | None:
    if type(node) is nodes.Filter and node.node is not None:
        is_use = node.name in _OF_DICTS_AS_FILTERS and carried.field(node.node) is not None
        return "dict" if is_use else None
    if type(node) is nodes.Call and type(node.node) is nodes.Getattr:
        is_use = node.node.attr in _OF_DICTS and carried.field(node.node.node) is not None
        return "dict" if is_use else None
    if type(node) is nodes.Add:
        return "text" if any(map(carried.field, (node.left, node.right))) else None
    if type(node) is nodes.Concat:
        return "text" if any(map(carried.field, node.nodes)) else None
    return None


def _is_guarded(template: Template, node: nodes.Node, asked: list[nodes.Test]) -> bool:
    if not asked:
        return False
    around = [template.span(test) for test, _ in guards(template, node)]
    # A test before the use, in the same loop, may have replaced the arguments or refused them.
    loop = (
        template.ast if loop_around(template, node) is template.ast else loop_around(template, node)
    )
    scope = Span(0, len(template.text)) if loop is template.ast else template.span(loop)
    before = Span(scope.start, template.span(node).start)
    return any(
        outer.start <= template.span(test).start < outer.end
        for test in asked
        for outer in (*around, before)
    )
