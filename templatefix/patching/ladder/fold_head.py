"""What of a folded template stands before the macro: what comes out alike for every piece."""

from __future__ import annotations

from collections import Counter

from jinja2 import nodes

from templatefix.syntax import Template

#: Filters that give another value each time.
_CHANCE = frozenset({"random"})


def head_end(template: Template, given: frozenset[str]) -> int:
    """The character at which the first statement begins that has to be in the macro.

    Before it stand constants and macros: they read nothing of what is ``given`` to the macro, and
    nothing that is set twice. 0 where the template begins with something else.
    """
    head = _Head(template, given)
    taken = 0
    for statement in template.ast.body:
        if head.takes(statement):
            taken += 1
        elif not (isinstance(statement, nodes.Output) and _is_silent(statement)):
            return _start(template, statement) if taken else 0
    return 0


class _Head:
    def __init__(self, template: Template, given: frozenset[str]) -> None:
        self.template = template
        self.given = given
        self.known: set[str] = set()
        self.set = Counter(_set_in(template, template.ast))

    def takes(self, statement: nodes.Node) -> bool:
        """Whether a statement may stand before the macro; those before it do."""
        if isinstance(statement, nodes.Macro):
            return self._adds(statement.name) if self._reads_nothing_given(statement) else False
        return (
            isinstance(statement, nodes.Assign)
            and isinstance(statement.target, nodes.Name)
            and self._is_constant(statement.node)
            and self._adds(statement.target.name)
        )

    def _adds(self, name: str) -> bool:
        if self.set[name] > 1 or name in self.given:
            return False
        self.known.add(name)
        return True

    def _is_constant(self, value: nodes.Node) -> bool:
        below = [value, *self.template.below(value, nodes.Node)]
        return all(
            node.name in self.known
            if isinstance(node, nodes.Name)
            else not isinstance(node.node, nodes.Name)
            if isinstance(node, nodes.Call)
            else not (isinstance(node, nodes.Filter) and node.name in _CHANCE)
            for node in below
        )

    def _reads_nothing_given(self, macro: nodes.Macro) -> bool:
        own = Counter(_set_in(self.template, macro))
        parameters = {parameter.name for parameter in macro.args}
        read = {n.name for n in self.template.below(macro, nodes.Name) if n.ctx == "load"}
        return all(
            name in self.known
            or name == macro.name
            or (name not in self.given and self.set[name] == own[name])
            for name in read - parameters
        )


def _set_in(template: Template, root: nodes.Node) -> list[str]:
    """The names that are given a value below a node, once for each time."""
    names = [n.name for n in template.below(root, nodes.Name) if n.ctx in ("store", "param")]
    return names + [macro.name for macro in template.below(root, nodes.Macro)]


def _is_silent(output: nodes.Output) -> bool:
    return all(isinstance(part, nodes.TemplateData) and not part.data for part in output.nodes)


def _start(template: Template, statement: nodes.Node) -> int:
    """Where a statement begins; 0 where whitespace is printed before it."""
    if not isinstance(statement, nodes.Output):
        return template.span(statement).start
    first = statement.nodes[0]
    if isinstance(first, nodes.TemplateData):
        return 0 if first.data[:1].isspace() else template.span(first).start
    printed = template.print_span(first)
    return 0 if printed is None else printed.start
