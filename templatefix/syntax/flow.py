"""How values travel between variables: by ``set``, namespaces and the parameters of macros."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache

from jinja2 import nodes

from templatefix.syntax.template import Template

#: A variable, or an attribute of a namespace.
Variable = tuple[str, str | None]


@lru_cache(maxsize=8)
def flow_of(template: Template) -> Flow:
    """How values travel in a template."""
    return Flow(template)


class Flow:
    """The variables of a template. A macro's parameters and what it sets are its own.

    Attributes of namespaces go by their written name everywhere: namespaces are handed around.
    """

    def __init__(self, template: Template) -> None:
        self._template = template
        self._known: dict[int, str] = {}
        self._macros = {
            place.node.name: place.node
            for place in template.placed(nodes.Macro)
            if type(place.node) is nodes.Macro
        }
        self._locals = {
            macro.name: frozenset(
                [name.name for name in macro.args]
                + [name.name for name in template.below(macro, nodes.Name) if name.ctx == "store"]
            )
            for macro in self._macros.values()
        }

    def macro_around(self, node: nodes.Node) -> str | None:
        """The name of the innermost macro in which a node stands."""
        if not self._macros:
            return None
        parents = self._template.parents
        parent = parents[id(node)].parent
        while parent is not None and type(parent) is not nodes.Template:
            if type(parent) is nodes.Macro:
                return parent.name
            parent = parents[id(parent)].parent
        return None

    def variable(self, node: nodes.Node) -> Variable | None:
        """The variable that an expression reads: ``x``, or ``x.y`` where x may be a namespace."""
        if type(node) is nodes.Name and node.ctx == "load":
            return self._scoped(node, node.name), None
        if type(node) is nodes.Getattr and type(node.node) is nodes.Name:
            return node.node.name, node.attr
        return None

    def assigned(self, assignment: nodes.Assign | nodes.AssignBlock) -> Variable | None:
        """The variable that a ``set`` fills; None where it unpacks several."""
        target = assignment.target
        if type(target) is nodes.NSRef:
            return target.name, target.attr
        if type(target) is nodes.Name:
            return self._scoped(target, target.name), None
        return None

    @cached_property
    def edges(self) -> tuple[tuple[Variable, nodes.Node], ...]:
        """Each variable that is filled somewhere, with the expression that fills it."""
        return tuple(self._edges())

    def _edges(self) -> Iterator[tuple[Variable, nodes.Node]]:
        for node, _, _ in self._template.placed(nodes.Assign, nodes.AssignBlock, nodes.Call):
            if type(node) is nodes.Assign:
                target = self.assigned(node)
                if target is not None:
                    yield target, node.node
                    for key, value in _namespace_attributes(node.node):
                        yield (_written_name(node.target), key), value
            elif type(node) is nodes.AssignBlock:
                target = self.assigned(node)
                if target is not None:
                    yield from ((target, part) for part in self._printed(node))
            elif type(node) is nodes.Call and type(node.node) is nodes.Name:
                macro = self._macros.get(node.node.name)
                if macro is not None:
                    yield from _parameters(macro, node)

    def _printed(self, block: nodes.AssignBlock) -> Iterator[nodes.Node]:
        for output in self._template.below(block, nodes.Output):
            yield from output.nodes

    def _scoped(self, node: nodes.Node, name: str) -> str:
        if not self._macros:
            return name
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._find_scoped(node, name)
        return known

    def _find_scoped(self, node: nodes.Node, name: str) -> str:
        macro = self.macro_around(node)
        while macro is not None:
            if name in self._locals[macro]:
                return f"{macro}({name})"
            macro = self.macro_around(self._macros[macro])
        return name


def _written_name(target: nodes.Node) -> str:
    return target.name if type(target) is nodes.Name else ""


def _parameters(macro: nodes.Macro, call: nodes.Call) -> Iterator[tuple[Variable, nodes.Node]]:
    for parameter, argument in zip(macro.args, call.args, strict=False):
        yield (f"{macro.name}({parameter.name})", None), argument
    for keyword in call.kwargs:
        yield (f"{macro.name}({keyword.key})", None), keyword.value


def _namespace_attributes(value: nodes.Node) -> Iterator[tuple[str, nodes.Expr]]:
    if type(value) is not nodes.Call or type(value.node) is not nodes.Name:
        return
    if value.node.name == "namespace":
        yield from ((pair.key, pair.value) for pair in value.kwargs)
