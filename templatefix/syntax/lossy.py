"""Where the text of an answer is changed before it is printed."""

from __future__ import annotations

from typing import NamedTuple

from jinja2 import nodes

from templatefix.syntax.carried import Carried
from templatefix.syntax.flow import Variable
from templatefix.syntax.guards import roles
from templatefix.syntax.names import is_condition
from templatefix.syntax.span import Span
from templatefix.syntax.template import Template

REASONING = frozenset({"reasoning", "reasoning_content", "thinking"})

#: Filters and methods after which the text cannot be told any more.
_LOSSY = frozenset(
    "trim strip lstrip rstrip split rsplit partition rpartition replace lower upper title "
    "capitalize int float truncate striptags wordwrap removeprefix removesuffix".split()
)


class Loss(NamedTuple):
    """An expression that changes an answer's ``content`` or ``reasoning``."""

    span: Span
    field: str
    operations: tuple[str, ...]


def losses(template: Template) -> tuple[Loss, ...]:
    """Lossy filters and methods on what an assistant said, where the outcome may be printed."""
    carried = Carried(template, REASONING | {"content"}, changed=True)
    printed = _printed(template, carried)
    found = []
    for node, _, _ in template.placed(nodes.Filter, nodes.Call):
        operation = _operation(node)
        if operation is None:
            continue
        key = carried.field(_receiver(node))
        if key is None or not _reaches_text(template, carried, node, printed):
            continue
        allowed = roles(template, node)
        if allowed is None or "assistant" in allowed:
            field = "reasoning" if key in REASONING else "content"
            found.append(Loss(template.span(node), field, _chain(node)))
    return tuple(found)


def _operation(node: nodes.Node) -> str | None:
    if type(node) is nodes.Filter:
        return node.name if node.name in _LOSSY else None
    if type(node) is nodes.Call and type(node.node) is nodes.Getattr:
        return node.node.attr if node.node.attr in _LOSSY else None
    return None


def _receiver(node: nodes.Node) -> nodes.Node:
    if type(node) is nodes.Filter:
        return node.node if node.node is not None else node
    assert type(node) is nodes.Call
    assert type(node.node) is nodes.Getattr
    return node.node.node


def _chain(node: nodes.Node) -> tuple[str, ...]:
    """The operations of ``content.split(...)[-1].lstrip()`` in the order in which they happen."""
    names: list[str] = []
    while True:
        operation = _operation(node)
        if operation is not None:
            names.append(operation)
            node = _receiver(node)
        elif isinstance(node, (nodes.Getitem, nodes.Getattr)):
            node = node.node
        else:
            return tuple(reversed(names))


def _reaches_text(
    template: Template, carried: Carried, node: nodes.Node, printed: frozenset[Variable]
) -> bool:
    """Whether the value goes on to the text, and not through another lossy step first."""
    while True:
        if is_condition(template, node):
            return False
        parent, field = template.parents[id(node)].parent, template.parents[id(node)].field
        if isinstance(parent, (nodes.Compare, nodes.Operand, nodes.Test)):
            return False
        if type(parent) is nodes.Assign:
            target = carried.flow.assigned(parent)
            return target is None or target in printed
        if type(parent) is nodes.Filter:
            if field == "node" and (parent.name in _LOSSY or parent.name in ("length", "count")):
                return False
        elif type(parent) is nodes.Getattr:
            call = template.parents[id(parent)].parent
            if type(call) is nodes.Call and call.node is parent and parent.attr in _LOSSY:
                return False
        if parent is None or not isinstance(parent, nodes.Expr):
            return isinstance(parent, (nodes.Output, nodes.AssignBlock, nodes.For))
        node = parent


def _printed(template: Template, carried: Carried) -> frozenset[Variable]:
    """The variables from which some printed text is made."""
    readers: dict[Variable, list[nodes.Node]] = {}
    for target, value in carried.edges:
        readers.setdefault(target, []).append(value)
    queue = [
        *template.printed,
        *(child for place in template.placed(nodes.For) for child in place.node.iter_child_nodes()),
    ]
    found: set[Variable] = set()
    while queue:
        expression = queue.pop()
        if not isinstance(expression, nodes.Expr):
            continue
        for node in (expression, *template.below(expression, nodes.Expr)):
            variable = carried.flow.variable(node)
            if variable is not None and variable not in found:
                found.add(variable)
                queue += readers.get(variable, ())
    return frozenset(found)
