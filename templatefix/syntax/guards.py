"""The conditions under which a part of a template is reached."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from jinja2 import nodes

from templatefix.syntax.template import Template


class Guard(NamedTuple):
    """A condition around a node, and whether it holds there."""

    test: nodes.Node
    holds: bool


def guards(template: Template, node: nodes.Node) -> Iterator[Guard]:
    """The conditions around a node from the inside out, up to the macro that holds it."""
    parents = template.parents
    place = parents[id(node)]
    while place.parent is not None and type(place.parent) is not nodes.Template:
        parent, field = place.parent, place.field
        if type(parent) is nodes.Macro:
            return
        if type(parent) is nodes.CondExpr and field != "test":
            yield Guard(parent.test, field == "expr1")
        elif (type(parent) is nodes.And or type(parent) is nodes.Or) and field == "right":
            yield Guard(parent.left, type(parent) is nodes.And)
        elif type(parent) is nodes.For and field == "body" and parent.test is not None:
            yield Guard(parent.test, True)
        elif type(parent) is nodes.If and field != "test":
            yield Guard(parent.test, field == "body")
            for branch in parent.elif_ if field != "body" else ():
                if branch is place.node:
                    break
                yield Guard(branch.test, False)
        place = parents[id(parent)]


def facts(template: Template, node: nodes.Node) -> Iterator[Guard]:
    """What holds where a node is reached: the guards, taken apart as far as logic allows."""
    stack = list(guards(template, node))
    while stack:
        test, holds = stack.pop()
        if type(test) is nodes.Not:
            stack.append(Guard(test.node, not holds))
        elif type(test) is (nodes.And if holds else nodes.Or):
            stack += [Guard(test.left, holds), Guard(test.right, holds)]
        else:
            yield Guard(test, holds)


def roles(template: Template, node: nodes.Node) -> frozenset[str] | None:
    """The roles that the message may have where a node is reached; None where nothing tells."""
    found: frozenset[str] | None = None
    names = _role_names(template)
    for test, holds in facts(template, node):
        named = _roles_in(test, names) if holds else None
        if named is not None:
            found = named if found is None else found & named
    return found


@lru_cache(maxsize=8)
def _role_names(template: Template) -> frozenset[str]:
    """The variables that hold a message's role."""
    return frozenset(
        place.node.target.name
        for place in template.placed(nodes.Assign)
        if type(place.node) is nodes.Assign
        and type(place.node.target) is nodes.Name
        and _is_role(place.node.node, frozenset())
    )


def _roles_in(test: nodes.Node, names: frozenset[str]) -> frozenset[str] | None:
    """``message.role == "user" or ...``: the roles of which a condition requires one."""
    if type(test) is nodes.Or:
        left, right = _roles_in(test.left, names), _roles_in(test.right, names)
        return None if left is None or right is None else left | right
    if type(test) is nodes.And:
        left, right = _roles_in(test.left, names), _roles_in(test.right, names)
        return left if right is None else right if left is None else left & right
    if type(test) is not nodes.Compare or len(test.ops) != 1:
        return None
    operand = test.ops[0]
    subject = test.expr
    while type(subject) is nodes.Filter and subject.node is not None:
        subject = subject.node
    if not _is_role(subject, names):
        return None
    if operand.op == "eq" and type(operand.expr) is nodes.Const:
        return frozenset({str(operand.expr.value)})
    if operand.op == "in" and isinstance(operand.expr, (nodes.List, nodes.Tuple)):
        items = operand.expr.items
        if all(type(item) is nodes.Const for item in items):
            return frozenset(str(item.value) for item in items if type(item) is nodes.Const)
    return None


def _is_role(node: nodes.Node, names: frozenset[str]) -> bool:
    """``message.role``, and not the role of its neighbour, or a variable that holds it."""
    if type(node) is nodes.Name:
        return node.name in names
    return field_of(node) == "role" and isinstance(getattr(node, "node", None), nodes.Name)


def field_of(node: nodes.Node) -> str | None:
    """The key that ``x.key``, ``x['key']`` or ``x.get('key')`` reads."""
    if type(node) is nodes.Getattr:
        return node.attr
    if type(node) is nodes.Getitem:
        return _text(node.arg)
    if type(node) is nodes.Call and type(node.node) is nodes.Getattr:
        return _text(node.args[0]) if node.node.attr == "get" and node.args else None
    return None


def _text(node: nodes.Node) -> str | None:
    return node.value if type(node) is nodes.Const and isinstance(node.value, str) else None


def loop_around(template: Template, node: nodes.Node) -> nodes.Node:
    """The innermost loop or macro around a node, else the whole template."""
    parent = template.parents[id(node)].parent
    while parent is not None and not isinstance(parent, (nodes.For, nodes.Macro, nodes.Template)):
        parent = template.parents[id(parent)].parent
    return template.ast if parent is None else parent
