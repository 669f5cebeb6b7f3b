"""Which expressions hold the value of a message's field, through variables and changes of it."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from templatefix.syntax.flow import Variable, flow_of
from templatefix.syntax.guards import field_of
from templatefix.syntax.names import DEFAULT_FILTERS
from templatefix.syntax.template import Template


class Carried:
    """Follows some fields of messages: as they are, or also what is made of their text."""

    def __init__(self, template: Template, fields: frozenset[str], *, changed: bool) -> None:
        self.template = template
        self.fields = fields
        self.changed = changed
        self.flow = flow_of(template)
        self.edges = self.flow.edges
        self._variables = self._spread()

    def field(self, node: nodes.Node) -> str | None:
        """The field whose value an expression holds."""
        for inner in self._handed_on(node):
            key = field_of(inner)
            if key in self.fields and not _of_first_message(inner):
                return key
            variable = self.flow.variable(inner)
            if variable is not None and variable in self._variables:
                return self._variables[variable]
        return None

    def _spread(self) -> dict[Variable, str]:
        self._variables = {}
        grown = True
        while grown:
            grown = False
            for target, value in self.edges:
                if target not in self._variables:
                    key = self.field(value)
                    if key is not None:
                        self._variables[target] = key
                        grown = True
        return self._variables

    def _handed_on(self, expression: nodes.Node) -> Iterator[nodes.Node]:
        stack = [expression]
        while stack:
            node = stack.pop()
            yield node
            if type(node) is nodes.CondExpr:
                stack += [part for part in (node.expr1, node.expr2) if part is not None]
            elif type(node) is nodes.Or or type(node) is nodes.And:
                stack += [node.left, node.right]
            elif type(node) is nodes.Filter and node.node is not None:
                if self.changed or node.name in DEFAULT_FILTERS:
                    stack.append(node.node)
            elif self.changed and type(node) is nodes.Call:
                if type(node.node) is nodes.Getattr:
                    stack.append(node.node.node)
                else:  # a macro that prints what it is given
                    stack += node.args
            elif self.changed and type(node) is nodes.Getitem:
                stack.append(node.node)
            elif self.changed and type(node) is nodes.Add:
                stack += [node.left, node.right]
            elif self.changed and type(node) is nodes.Concat:
                stack += node.nodes


def _of_first_message(node: nodes.Node) -> bool:
    """``messages[0].content``: whatever it is, it is no answer."""
    owner = getattr(node, "node", None)
    return (
        isinstance(owner, nodes.Getitem)
        and isinstance(owner.arg, nodes.Const)
        and owner.arg.value == 0
    )
