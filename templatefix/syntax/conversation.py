"""Where a template walks over the messages, and where it looks at how they end."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from functools import lru_cache

from jinja2 import nodes

from templatefix.syntax.flow import Flow, Variable, flow_of
from templatefix.syntax.template import Template

#: Of the loop over the messages: what tells how many are still to come, or which.
_AHEAD = frozenset({"last", "revindex", "revindex0", "nextitem", "length"})

#: Filters that hand on messages without a look at their end.
_PLAIN_FILTERS = frozenset({"list", "first", "default", "d", "selectattr", "rejectattr"})


@dataclass(frozen=True)
class Conversation:
    """The variables that hold the messages, and the loops over them."""

    template: Template
    flow: Flow
    names: frozenset[Variable]
    loops: tuple[nodes.For, ...]
    printing_loops: tuple[nodes.For, ...]
    _called_from: dict[str, list[nodes.Call]] = field(repr=False)
    _around: dict[int, nodes.For | None] = field(default_factory=dict, repr=False)

    def holds_messages(self, node: nodes.Node) -> bool:
        """Whether an expression is the list of messages: all, filtered, sliced or extended."""
        return _holds(self.flow, node, self.names)

    def loop_around(self, node: nodes.Node) -> nodes.For | None:
        """The innermost loop over the messages in whose body a node stands."""
        known, parents = self._around, self.template.parents
        below = []
        loop: nodes.For | None = None
        while id(node) not in known:
            below.append(node)
            parent, field = parents[id(node)].parent, parents[id(node)].field
            if parent is None or type(parent) is nodes.Template:
                break
            if type(parent) is nodes.For and field == "body" and self._goes_over_messages(parent):
                loop = parent
                break
            node = parent
        else:
            loop = known[id(node)]
        known.update((id(each), loop) for each in below)
        return loop

    def is_inside(self, node: nodes.Node) -> bool:
        """Whether a node is printed for one message, be it through macros."""
        return self._reaches_loop(node, frozenset())

    def _reaches_loop(self, node: nodes.Node, seen: frozenset[str]) -> bool:
        if self.loop_around(node) is not None:
            return True
        macro = self.flow.macro_around(node)
        if macro is None or macro in seen:
            return False
        return any(self._reaches_loop(call, seen | {macro}) for call in self._called_from[macro])

    def position(self, node: nodes.Node) -> int:
        """Where a node first prints: for a macro's body where the macro is first called."""
        seen: set[str] = set()
        macro = self.flow.macro_around(node)
        while macro is not None and macro not in seen:
            seen.add(macro)
            calls = self._called_from[macro]
            if not calls:
                break
            node = calls[0]
            macro = self.flow.macro_around(node)
        return self.template.span(node).start

    def knows_the_end(self, node: nodes.Node) -> bool:
        """Whether an expression by itself depends on messages after the current one."""
        if type(node) is nodes.Getattr:
            ahead = node.attr in _AHEAD and _is_loop(node.node)
            return ahead and self._loop_is_over_messages(node)
        if type(node) is nodes.Filter and node.node is not None:
            return node.name not in _PLAIN_FILTERS and self.holds_messages(node.node)
        if type(node) is nodes.Getitem:
            if type(node.arg) is nodes.Slice or not self.holds_messages(node.node):
                return False
            return _is_ahead(node.arg)
        # A whole conversation handed to a function or compared: nobody knows what is read of it.
        return (
            type(node) is nodes.Name
            and self.flow.variable(node) in self.names
            and isinstance(
                self.template.parents[id(node)].parent, (nodes.Call, nodes.Operand, nodes.Keyword)
            )
        )

    def _goes_over_messages(self, loop: nodes.For) -> bool:
        # Nodes are equal when they read alike, so "in" would take one loop for another.
        return any(loop is known for known in self.loops)

    def _loop_is_over_messages(self, node: nodes.Node) -> bool:
        """``loop`` is the innermost loop, whatever it goes over."""
        for loop, inside in _loops_around(self.template, node):
            if inside:
                return self._goes_over_messages(loop)
        return False


@lru_cache(maxsize=8)
def find_conversation(template: Template) -> Conversation:
    flow = flow_of(template)
    names: set[Variable] = {("messages", None)}
    edges = flow.edges
    grown = True
    while grown:
        grown = False
        for target, value in edges:
            if target not in names and _holds(flow, value, names):
                names.add(target)
                grown = True
    loops = tuple(
        place.node
        for place in template.placed(nodes.For)
        if type(place.node) is nodes.For
        and (_holds(flow, place.node.iter, names) or _counts(flow, place.node.iter, names))
    )
    calls: dict[str, list[nodes.Call]] = {}
    for node, _, _ in template.placed(nodes.Macro, nodes.Call):
        if type(node) is nodes.Macro:
            calls.setdefault(node.name, [])
        elif type(node) is nodes.Call and type(node.node) is nodes.Name:
            calls.setdefault(node.node.name, []).append(node)
    printing = tuple(
        loop for loop in loops if any(map(_prints, template.below(loop, nodes.Output)))
    )
    return Conversation(template, flow, frozenset(names), loops, printing, calls)


def _holds(flow: Flow, expression: nodes.Node, names: Set[Variable]) -> bool:
    stack = [expression]
    while stack:
        node = stack.pop()
        if flow.variable(node) in names:
            return True
        if type(node) is nodes.Filter and node.node is not None:
            if node.name == "reverse" or (node.name in _PLAIN_FILTERS and node.name != "first"):
                stack.append(node.node)
        elif type(node) is nodes.Getitem and type(node.arg) is nodes.Slice:
            stack.append(node.node)
        elif type(node) is nodes.Add or type(node) is nodes.Or:
            stack.extend((node.left, node.right))
        elif type(node) is nodes.CondExpr:
            stack.extend(part for part in (node.expr1, node.expr2) if part is not None)
    return False


def _prints(output: nodes.Output) -> bool:
    """Whether an output prints text: a loop that only raises has checked the roles, no more."""
    return any(
        part.data.strip()
        if type(part) is nodes.TemplateData
        else not (
            type(part) is nodes.Call
            and type(part.node) is nodes.Name
            and part.node.name == "raise_exception"
        )
        for part in output.nodes
    )


def _counts(flow: Flow, node: nodes.Node, names: Set[Variable]) -> bool:
    """``range(messages | length)``: a loop over the messages by their numbers."""
    return (
        type(node) is nodes.Call
        and type(node.node) is nodes.Name
        and node.node.name == "range"
        and any(flow.variable(name) in names for name in node.find_all(nodes.Name))
    )


def _is_ahead(index: nodes.Node) -> bool:
    """``messages[-1]``, ``messages[loop.index]``, ``messages[i + 1]``."""
    if type(index) is nodes.Neg:
        return True
    if type(index) is nodes.Getattr:
        return index.attr == "index" and _is_loop(index.node)
    return type(index) is nodes.Add


def _loops_around(template: Template, node: nodes.Node) -> Iterator[tuple[nodes.For, bool]]:
    """The loops around a node from the inside out, and whether it stands in their bodies."""
    parents = template.parents
    place = parents[id(node)]
    while place.parent is not None and type(place.parent) is not nodes.Template:
        if type(place.parent) is nodes.For:
            yield place.parent, place.field == "body"
        place = parents[id(place.parent)]


def _is_loop(node: nodes.Node) -> bool:
    return type(node) is nodes.Name and node.name == "loop"
