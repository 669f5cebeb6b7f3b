"""The request kwargs that a template may read, and the values worth trying for each."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import nodes

from templatefix.syntax.flow import Flow, Variable, flow_of
from templatefix.syntax.names import (
    DEFAULT_FILTERS,
    STRUCTURE_FILTERS,
    assigned_names,
    is_condition,
    named,
    outside_loads,
    outside_names,
    tests_presence,
)
from templatefix.syntax.span import Position
from templatefix.syntax.template import Template

#: Methods that hand on a string which still tells one value of a kwarg from another.
_STRING_METHODS = frozenset({"lower", "upper", "strip", "lstrip", "rstrip", "title", "capitalize"})
_STRING_FILTERS = frozenset({"lower", "upper", "trim", "string", "title", "capitalize"})


@dataclass(frozen=True)
class Kwarg:
    """A name that a request may set through ``chat_template_kwargs``.

    ``values`` are worth probing: booleans where it is used as one or nothing tells, then every
    string and integer that the template compares it with or falls back to; none where it must be
    a list or an object. ``guarded``: the template asks somewhere whether it was given. ``free``:
    its text is printed as given, so that ``values`` cannot be all there are. ``position`` is its
    first use.
    """

    name: str
    values: tuple[bool | int | str, ...]
    guarded: bool
    free: bool
    position: Position


def kwargs(template: Template, special_tokens: Container[str] = ()) -> tuple[Kwarg, ...]:
    """The request kwargs that the template may read, in the order of their first use.

    Left out: what every server supplies, special tokens (the given names and all that end in
    ``_token``), and locals that Jinja counts as undeclared because they are set on some paths
    only.
    """
    return tuple(kwarg for kwarg in _kwargs(template) if kwarg.name not in special_tokens)


@lru_cache(maxsize=8)
def _kwargs(template: Template) -> tuple[Kwarg, ...]:
    """Those of them that may be special tokens, too."""
    found = []
    for name in outside_names(template):
        uses = outside_loads(template, name)
        if uses and not _is_local(template, name, uses):
            values, free = _values(template, name)
            guarded = any(tests_presence(template, use) for use in uses)
            position = template.position(template.span(uses[0]).start)
            found.append(Kwarg(name, values, guarded, free, position))
    return tuple(sorted(found, key=lambda kwarg: kwarg.position))


def _is_local(template: Template, name: str, uses: list[nodes.Name]) -> bool:
    """Whether the template sets the name itself, and asks for it at most afterwards.

    ``{% if think is not defined %}{% set think = false %}`` asks first: a kwarg with a default.
    """
    # A macro's parameter is no assignment: where it holds, the name is not read from outside.
    stores = [place for place in named(template, name) if place.node.ctx == "store"]
    if not stores:
        return name in assigned_names(template, parameters=False)
    asked = [use for use in uses if tests_presence(template, use)]
    if not asked:
        return True
    assignments = [place.parent for place in stores if type(place.parent) is nodes.Assign]
    constant = all(type(assignment.node) is nodes.Const for assignment in assignments)
    if constant and len(assignments) == len(stores):
        return False
    first = min((place.parent or place.node for place in stores), key=template.span)
    return template.span(asked[0]).start >= template.span(first).end


def _values(template: Template, name: str) -> tuple[tuple[bool | int | str, ...], bool]:
    flow, edges, uses = _variables(template)
    variables = _aliases(flow, edges, name)
    values: dict[tuple[type, object], bool | int | str] = {}
    boolean = structure = free = False

    def compared_with(literals: Iterable[nodes.Node]) -> None:
        nonlocal boolean
        for literal in literals:
            value = literal.value if type(literal) is nodes.Const else None
            if isinstance(value, bool):
                boolean = True
            elif isinstance(value, (str, int)):
                values[type(value), value] = value

    for node, parent, variable in uses:
        if variable not in variables:
            continue
        if type(node) is nodes.Assign:
            compared_with([node.node])
            continue
        if is_condition(template, node):
            boolean = True
        top = _value_of(template, node)
        holder, field = template.parents[id(top)].parent, template.parents[id(top)].field
        if type(holder) is nodes.Compare:
            compared_with(_partners(holder, top))
        elif type(holder) is nodes.Operand and holder.op in ("in", "notin"):
            structure = True
        elif isinstance(holder, (nodes.Or, nodes.And)) and not is_condition(template, top):
            compared_with((holder.left, holder.right))
        elif type(holder) is nodes.CondExpr and field in ("expr1", "expr2"):
            compared_with(part for part in (holder.expr1, holder.expr2) if part is not None)
        elif type(holder) is nodes.Test and holder.node is top:
            boolean |= holder.name in ("true", "false", "boolean")
            if holder.name in ("sameas", "eq", "equalto", "==", "ne", "!="):
                compared_with(holder.args)
            elif holder.name == "in":
                compared_with(_items(holder.args[0]) if holder.args else ())
            structure |= holder.name in ("mapping", "iterable", "sequence")
        elif isinstance(holder, (nodes.Output, nodes.Concat, nodes.Add)):
            free = True
        if type(parent) is nodes.Filter and parent.node is node:
            if parent.name in DEFAULT_FILTERS:
                compared_with(parent.args[:1])
            structure |= parent.name in STRUCTURE_FILTERS
        elif type(parent) is nodes.For and parent.iter is node:
            structure = True
        elif isinstance(parent, (nodes.Getattr, nodes.Getitem)) and parent.node is node:
            structure |= flow.variable(parent) is None and not _is_called(template, parent)
    if structure and not values:
        return (), free
    booleans = (True, False) if boolean or not (values or free) else ()
    return (*booleans, *values.values()), free


#: Each variable that is filled somewhere, with the expressions whose value it may get.
_Edges = list[tuple[Variable, list[nodes.Node]]]
#: A reading of a variable or an assignment to it, what holds it, and the variable.
_Use = tuple[nodes.Node, nodes.Node | None, Variable]


@lru_cache(maxsize=4)
def _variables(template: Template) -> tuple[Flow, _Edges, list[_Use]]:
    """What all kwargs of a template are looked up in: a request may have hundreds."""
    flow = flow_of(template)
    edges = [(target, list(_origins(value))) for target, value in flow.edges]
    uses = []
    for node, parent, _ in template.placed(nodes.Assign, nodes.Name, nodes.Getattr):
        variable = flow.assigned(node) if type(node) is nodes.Assign else flow.variable(node)
        if variable is not None:
            uses.append((node, parent, variable))
    return flow, edges, uses


def _aliases(flow: Flow, edges: _Edges, name: str) -> frozenset[Variable]:
    """The kwarg and every variable that holds its value, whatever path sets it."""
    variables: set[Variable] = {(name, None)}
    grown = True
    while grown:
        grown = False
        for target, value in edges:
            if target not in variables and any(flow.variable(node) in variables for node in value):
                variables.add(target)
                grown = True
    return frozenset(variables)


def _origins(expression: nodes.Node) -> Iterator[nodes.Node]:
    """The expressions whose value this one hands on, changed in spelling at most."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        if type(node) is nodes.CondExpr:
            stack.extend(part for part in (node.expr1, node.expr2) if part is not None)
        elif isinstance(node, (nodes.Or, nodes.And)):
            stack.extend((node.left, node.right))
        elif type(node) is nodes.Filter and node.node is not None:
            if node.name in DEFAULT_FILTERS | _STRING_FILTERS:
                stack.append(node.node)
        elif (
            type(node) is nodes.Call
            and type(node.node) is nodes.Getattr
            and node.node.attr in _STRING_METHODS
        ):
            stack.append(node.node.node)


def _value_of(template: Template, node: nodes.Node) -> nodes.Node:
    """Climb from a variable through filters and methods that keep its value recognisable."""
    while True:
        parent = template.parents[id(node)].parent
        if type(parent) is nodes.Filter and parent.node is node:
            if parent.name in DEFAULT_FILTERS | _STRING_FILTERS:
                node = parent
                continue
        elif type(parent) is nodes.Getattr and parent.attr in _STRING_METHODS:
            call = template.parents[id(parent)].parent
            if type(call) is nodes.Call and call.node is parent:
                node = call
                continue
        return node


def _partners(comparison: nodes.Compare, side: nodes.Node) -> Iterator[nodes.Node]:
    if comparison.expr is side:
        for operand in comparison.ops:
            if operand.op in ("in", "notin"):
                yield from _items(operand.expr)
            else:
                yield operand.expr


def _items(node: nodes.Node) -> Iterable[nodes.Node]:
    return node.items if isinstance(node, (nodes.List, nodes.Tuple)) else ()


def _is_called(template: Template, node: nodes.Node) -> bool:
    parent = template.parents[id(node)].parent
    return type(parent) is nodes.Call and parent.node is node
