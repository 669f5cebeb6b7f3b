"""Conditions that look at the next message and yet print the same for a message that is history.

``loop.last or messages[loop.index0 + 1].role != "tool"`` closes a group of tool results. The
newest message of a request is followed by an answer later, and for both the condition holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jinja2 import nodes

from templatefix.syntax.guards import field_of, roles
from templatefix.syntax.template import Template

#: Roles of a message that may follow one whose own role is not known.
_ANY = frozenset({"assistant", "user", "tool", "system"})


class _Next(NamedTuple):
    """What follows a message: nothing (``role`` is None), or a message of a role."""

    role: str | None


def is_settled(template: Template, condition: nodes.Node) -> bool:
    """Whether what a condition prints is the same for the newest message and later on."""
    own = roles(template, condition)
    # A server asks for an answer after any message but an answer.
    following = _ANY if own is None or "assistant" in own else frozenset({"assistant"})
    outcome = _outcome(condition, _Next(None))
    if outcome is not None and all(
        _outcome(condition, _Next(role)) is outcome for role in following
    ):
        return True
    chain = _chain(template, condition)
    if chain is None:
        return False
    newest = _printed(chain, _Next(None))
    return newest is not None and all(_printed(chain, _Next(role)) == newest for role in following)


def _chain(template: Template, condition: nodes.Node) -> nodes.If | nodes.CondExpr | None:
    """The whole choice that a condition decides on."""
    if type(condition) is nodes.CondExpr:
        return condition
    node: nodes.Node = condition
    place = template.parents[id(node)]
    while isinstance(place.parent, nodes.Expr) and type(place.parent) is not nodes.CondExpr:
        node = place.parent
        place = template.parents[id(node)]
    chain = place.parent
    if place.field != "test" or not isinstance(chain, (nodes.If, nodes.CondExpr)):
        return None
    place = template.parents[id(chain)]
    while place.field == "elif_" and type(place.parent) is nodes.If:
        chain = place.parent
        place = template.parents[id(chain)]
    return chain


def _printed(chain: nodes.If | nodes.CondExpr, following: _Next) -> str | int | None:
    """What a choice prints: literal text, or the number of its branch; None: it is not known."""
    if isinstance(chain, nodes.CondExpr):
        outcome = _outcome(chain.test, following)
        if outcome is None:
            return None
        chosen = chain.expr1 if outcome else chain.expr2
        text = "" if chosen is None else _literal([nodes.Output([chosen])])
        return int(outcome) if text is None else text
    for number, branch in enumerate((chain, *chain.elif_)):
        outcome = _outcome(branch.test, following)
        if outcome is None:
            return None
        if outcome:
            text = _literal(branch.body)
            return number if text is None else text
    text = _literal(chain.else_)
    return -1 if text is None else text


def _literal(body: Iterable[nodes.Node]) -> str | None:
    text = ""
    for statement in body:
        if type(statement) is not nodes.Output:
            return None
        for part in statement.nodes:
            if type(part) is nodes.TemplateData:
                text += part.data
            elif type(part) is nodes.Const:
                text += str(part.value)
            else:
                return None
    return text


def _outcome(test: nodes.Node, following: _Next) -> bool | None:
    """A condition's truth as far as it is about what follows; None where it is not known."""
    if type(test) is nodes.Not:
        inner = _outcome(test.node, following)
        return None if inner is None else not inner
    if isinstance(test, (nodes.And, nodes.Or)):
        decisive = type(test) is nodes.Or
        sides = [_outcome(test.left, following), _outcome(test.right, following)]
        if decisive in sides:
            return decisive
        return None if None in sides else not decisive
    if type(test) is nodes.Const:
        return bool(test.value)
    if _is_of_loop(test, "last"):
        return following.role is None
    if _is_of_loop(test, "nextitem"):
        return following.role is not None
    if type(test) is nodes.Test and _is_of_loop(test.node, "nextitem"):
        if test.name in ("defined", "undefined"):
            return (following.role is not None) is (test.name == "defined")
        return None
    if type(test) is nodes.Compare and len(test.ops) == 1:
        if _counts_to_the_end(test):
            return following.role is not None
        if following.role is not None:
            return _compared(test, following.role)
    return None


def _counts_to_the_end(test: nodes.Compare) -> bool:
    """``loop.index < messages | length`` and ``loop.index0 < messages | length - 1``."""
    end = test.ops[0].expr
    if test.ops[0].op != "lt":
        return False
    if type(end) is nodes.Sub:
        is_one = type(end.right) is nodes.Const and end.right.value == 1
        end = end.left if is_one and _is_of_loop(test.expr, "index0") else test
    elif not _is_of_loop(test.expr, "index"):
        return False
    return type(end) is nodes.Filter and end.name in ("length", "count")


def _compared(test: nodes.Compare, role: str) -> bool | None:
    operand = test.ops[0]
    if not _is_next_role(test.expr):
        return None
    if operand.op in ("eq", "ne") and type(operand.expr) is nodes.Const:
        return (role == operand.expr.value) is (operand.op == "eq")
    if operand.op in ("in", "notin") and isinstance(operand.expr, (nodes.List, nodes.Tuple)):
        named = [item.value for item in operand.expr.items if type(item) is nodes.Const]
        if len(named) == len(operand.expr.items):
            return (role in named) is (operand.op == "in")
    return None


def _is_of_loop(node: nodes.Node, name: str) -> bool:
    return (
        type(node) is nodes.Getattr
        and node.attr == name
        and type(node.node) is nodes.Name
        and node.node.name == "loop"
    )


def _is_next_role(node: nodes.Node) -> bool:
    """``loop.nextitem.role``, ``messages[loop.index0 + 1].role`` or ``messages[i + 1].role``."""
    if field_of(node) != "role":
        return False
    owner = node.node  # type: ignore[attr-defined]
    if _is_of_loop(owner, "nextitem"):
        return True
    if type(owner) is not nodes.Getitem:
        return False
    index = owner.arg
    if type(index) is nodes.Add:
        parts = [index.left, index.right]
        return any(
            _is_of_loop(part, "index0") or type(part) is nodes.Name for part in parts
        ) and any(type(part) is nodes.Const and part.value == 1 for part in parts)
    return _is_of_loop(index, "index")
