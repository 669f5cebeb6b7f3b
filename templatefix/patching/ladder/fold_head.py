"""What of a folded template stands before the macro: what comes out alike for every piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from jinja2 import nodes

from templatefix.syntax import Template
from templatefix.syntax.names import loaded_names

#: Filters that give another value each time.
_CHANCE = frozenset({"random"})


def head_end(template: Template, given: frozenset[str]) -> int:
    """The character at which the first statement begins that has to be in the macro.

    Before it stand constants and macros: they read nothing of what is ``given`` to the macro, and
    nothing that is set twice. 0 where the template begins with something else.
    """
    body = [
        statement
        for statement in template.ast.body
        if not (isinstance(statement, nodes.Output) and _is_silent(statement))
    ]
    taken = len(body)
    while taken:
        # A macro may call one that is defined after it, if that stands before the rest as well.
        macros = {each.name for each in body[:taken] if isinstance(each, nodes.Macro)}
        head = _Head(template, given, macros)
        reached = next((i for i in range(taken) if not head.takes(body[i])), taken)
        if reached == taken:
            break
        taken = reached
    return _start(template, body[taken]) if 0 < taken < len(body) else 0


class _Head:
    def __init__(self, template: Template, given: frozenset[str], macros: set[str]) -> None:
        self.template = template
        self.given = given
        self.macros = macros
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
        try:
            read = _free([macro], set())
        except _Unknown:
            return False
        return all(
            name in self.known
            or (name in self.macros and self.set[name] == 1)
            or (name not in self.given and self.set[name] == 0)
            for name in read
        )


class _Unknown(Exception):
    """A statement of which it is not known what it reads."""


def _free(body: Iterable[nodes.Node], bound: set[str]) -> set[str]:
    """The names that statements read before they set them; those they set join ``bound``.

    Not ``jinja2.meta.find_undeclared_variables``, which also lists what is set on some paths only.
    """
    read: set[str] = set()
    for statement in body:
        read |= _read_by(statement, bound)
    return read


def _read_by(statement: nodes.Node, bound: set[str]) -> set[str]:
    if isinstance(statement, nodes.Assign):
        read = _names([statement.node], bound)
        return read | _bind(statement.target, bound)
    if isinstance(statement, nodes.AssignBlock):
        read = _free(statement.body, set(bound)) | _names([statement.filter], bound)
        return read | _bind(statement.target, bound)
    if isinstance(statement, nodes.If):
        branches = [statement, *statement.elif_]
        inner = [set(bound) for _ in (*branches, None)]
        read = _names([branch.test for branch in branches], bound)
        for choice, names in zip(branches, inner, strict=False):
            read |= _free(choice.body, names)
        read |= _free(statement.else_, inner[-1])
        bound |= set.intersection(*inner)
        return read
    if isinstance(statement, nodes.For):
        read, inside = _names([statement.iter], bound), {*bound, "loop"}
        read |= _bind(statement.target, inside) | _names([statement.test], inside)
        return read | _free(statement.body, inside) | _free(statement.else_, set(bound))
    if isinstance(statement, (nodes.Macro, nodes.CallBlock)):
        read = _names(statement.defaults, bound)
        if isinstance(statement, nodes.Macro):
            bound.add(statement.name)
        else:
            read |= _names([statement.call], bound)
        given = {argument.name for argument in statement.args}
        return read | _free(statement.body, bound | given | {"caller", "varargs", "kwargs"})
    if isinstance(statement, (nodes.Output, nodes.ExprStmt)):
        return _names([statement], bound)
    raise _Unknown(type(statement).__name__)


def _bind(target: nodes.Node, bound: set[str]) -> set[str]:
    """Binds the names of a target; what it reads itself is a namespace."""
    targets = target.items if isinstance(target, nodes.Tuple) else [target]
    read = {each.name for each in targets if isinstance(each, nodes.NSRef)} - bound
    bound |= {each.name for each in targets if isinstance(each, nodes.Name)}
    return read


def _names(roots: Iterable[nodes.Node | None], bound: set[str]) -> set[str]:
    """The names that expressions read and that are not bound."""
    return set().union(*(loaded_names(root) for root in roots if root is not None)) - bound


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
