"""The expressions at which the text turns: where an influence decides what is printed.

``dependences`` follows an influence as far as it may reach. What a reader wants to see is where it
comes in: the condition over ``ns.last_query_index``, not the output of a macro three calls away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from jinja2 import nodes

from templatefix.syntax.dataflow import Dependence, Influence, Origin, Where, dependences
from templatefix.syntax.flow import Variable, flow_of
from templatefix.syntax.guards import facts, guards, roles
from templatefix.syntax.lookahead import is_settled
from templatefix.syntax.span import Span
from templatefix.syntax.template import Template
from templatefix.syntax.tree import kinds_of

#: Assignments that are followed back from an output. Farther away it is anybody's guess.
_STEPS = 3


@dataclass(frozen=True)
class Pivot:
    """``at`` is the deciding expression; ``outputs`` is what it decides on, by their spans.

    ``of_answer``: it is only reached for messages of the assistant.
    """

    influence: Influence
    at: Span
    where: Where
    origins: tuple[Origin, ...]
    outputs: tuple[Span, ...]
    of_answer: bool


def pivots(template: Template) -> tuple[Pivot, ...]:
    """Where influences that matter for reuse come in, in the order of the source.

    Left out is what never shows: text that only ``raise_exception`` gets, the generation prompt
    itself, and conditions that come out alike for the newest message and for the same message
    in history.
    """
    search = _Search(template)
    found: dict[tuple[Influence, Span, Where], tuple[set[Origin], set[Span]]] = {}
    for dependence in dependences(template):
        outputs = [span for span in dependence.outputs if search.is_shown(span)]
        origins = [origin for origin in dependence.origins if search.matters(origin)]
        if not outputs or not origins:
            continue
        for at, near in search.pivots(dependence, origins):
            key = (dependence.influence, at, dependence.where)
            known = found.setdefault(key, (set(), set()))
            known[0].update(near)
            known[1].update(outputs)
    return tuple(
        Pivot(
            influence,
            at,
            where,
            tuple(sorted(origins, key=_by_span)),
            tuple(sorted(outputs)),
            search.is_of_answer(at),
        )
        for (influence, at, where), (origins, outputs) in sorted(
            found.items(), key=lambda item: (item[0][1], item[0][0], item[0][2])
        )
    )


def _by_span(origin: Origin) -> tuple[Span, str]:
    return origin.span, origin.name


class _Search:
    def __init__(self, template: Template) -> None:
        self.template = template
        self.flow = flow_of(template)
        self.edges: dict[Variable, list[nodes.Node]] = {}
        for target, value in self.flow.edges:
            self.edges.setdefault(target, []).append(value)
        self._shown: dict[Span, bool] = {}
        self._read: dict[int, frozenset[str]] = {}
        self._guards: dict[int, list[nodes.Node]] = {}

    @cached_property
    def printed(self) -> dict[Span, nodes.Node]:
        """What outputs print, by its span."""
        return {self.template.span(node): node for node in self.template.printed}

    @cached_property
    def expressions(self) -> dict[Span, nodes.Node]:
        """The expression of a span: the outermost, where several share it."""
        found: dict[Span, nodes.Node] = {}
        kinds = kinds_of(nodes.Expr)
        for node, _, _ in self.template.places:
            if type(node) in kinds:
                found.setdefault(self.template.span(node), node)
        return found

    @cached_property
    def collected(self) -> frozenset[Span]:
        """The assignments to lists that only grow at their end."""
        return frozenset(
            self.template.span(place.node)
            for place in self.template.placed(nodes.Assign)
            if type(place.node) is nodes.Assign and _is_appended_to(place.node)
        )

    def is_shown(self, output: Span) -> bool:
        """Whether an output is part of the conversation's text."""
        known = self._shown.get(output)
        if known is None:
            known = self._shown[output] = self._is_shown(output)
        return known

    def _is_shown(self, output: Span) -> bool:
        node = self.printed.get(output)
        if node is None:
            return False
        if type(node) is nodes.TemplateData:
            if not node.data.strip():
                return False
        elif type(node) is nodes.Call and getattr(node.node, "name", "") == "raise_exception":
            return False
        return not any(
            type(test) is nodes.Name and test.name == "add_generation_prompt"
            for test, _ in facts(self.template, node)
        )

    def is_of_answer(self, at: Span) -> bool:
        """Whether an expression is only reached for messages of the assistant."""
        node = self.expressions.get(at)
        return node is not None and roles(self.template, node) == frozenset({"assistant"})

    def matters(self, origin: Origin) -> bool:
        """Whether an origin can differ between two requests of one conversation."""
        if origin.influence is not Influence.LATER_MESSAGES:
            return True
        node = self.expressions.get(origin.span)
        if node is None:
            return origin.span not in self.collected
        parent = self.template.parents[id(node)].parent
        if type(node) is nodes.Filter and node.name in ("length", "count"):
            return not self._is_always_alike(node, parent)
        if type(node) is nodes.Getitem:
            return not self._asks_for_answer(node, parent)
        return True

    def _is_always_alike(self, node: nodes.Node, parent: nodes.Node | None) -> bool:
        """``messages | length > 0``, and ``range(messages | length)`` which only counts."""
        if type(parent) is nodes.Compare:
            others = [parent.expr, *(operand.expr for operand in parent.ops)]
        elif type(parent) is nodes.Operand:
            compare = self.template.parents[id(parent)].parent
            others = [compare.expr] if type(compare) is nodes.Compare else []
        else:
            return (
                type(parent) is nodes.Call
                and type(parent.node) is nodes.Name
                and parent.node.name == "range"
                and len(parent.args) == 1
            ) or isinstance(parent, (nodes.If, nodes.Not))
        return any(
            type(other) is nodes.Const and isinstance(other.value, int) and other.value <= 1
            for other in others
        )

    def _asks_for_answer(self, node: nodes.Node, parent: nodes.Node | None) -> bool:
        """``messages[-1].role == "assistant"``: a request that is to be answered ends otherwise."""
        grandparent = self.template.parents[id(parent)].parent if parent is not None else None
        return (
            isinstance(parent, (nodes.Getattr, nodes.Getitem))
            and type(grandparent) is nodes.Compare
            and len(grandparent.ops) == 1
            and type(grandparent.ops[0].expr) is nodes.Const
            and grandparent.ops[0].expr.value == "assistant"
        )

    def pivots(
        self, dependence: Dependence, origins: list[Origin]
    ) -> Iterator[tuple[Span, list[Origin]]]:
        """The expressions through which the origins come, and which of them each brings."""
        start = self.expressions.get(dependence.at)
        if start is None:
            return
        queue: list[tuple[nodes.Node, int]] = [(start, _STEPS)]
        seen: set[int] = set()
        while queue:
            expression, steps = queue.pop()
            if id(expression) in seen:
                continue
            seen.add(id(expression))
            near = self._near(expression, origins)
            if near:
                if not self._is_settled(expression, near):
                    yield self.template.span(expression), near
                continue
            if steps:
                queue += [(each, steps - 1) for each in self._sources(expression, origins)]

    def _near(self, expression: nodes.Node, origins: list[Origin]) -> list[Origin]:
        """The origins that stand in an expression, or fill a namespace's attribute it reads."""
        start, end = self.template.span(expression)
        read = self._attributes(expression)
        return [
            origin
            for origin in origins
            if (start <= origin.span.start and origin.span.end <= end) or origin.name in read
        ]

    def _attributes(self, expression: nodes.Node) -> frozenset[str]:
        """The attributes of namespaces that an expression reads, as origins name them."""
        known = self._read.get(id(expression))
        if known is None:
            known = self._read[id(expression)] = frozenset(
                f"{variable[0]}.{variable[1]}"
                for node in (expression, *self.template.below(expression, nodes.Getattr))
                if (variable := self.flow.variable(node)) is not None
            )
        return known

    def _sources(self, expression: nodes.Node, origins: list[Origin]) -> Iterator[nodes.Node]:
        """What fills the variables that an expression reads, and the conditions of doing so."""
        for node in (expression, *self.template.below(expression, nodes.Expr)):
            variable = self.flow.variable(node)
            for value in self.edges.get(variable, ()) if variable is not None else ():
                parent = self.template.parents[id(value)].parent
                if isinstance(parent, (nodes.Call, nodes.Keyword)):
                    # An argument of a macro: only what stands there itself comes in by it.
                    if self._near(value, origins):
                        yield value
                    continue
                yield value
                yield from (test for test in self._tests(value) if self._near(test, origins))

    def _tests(self, node: nodes.Node) -> list[nodes.Node]:
        """The conditions around a node."""
        known = self._guards.get(id(node))
        if known is None:
            known = self._guards[id(node)] = [test for test, _ in guards(self.template, node)]
        return known

    def _is_settled(self, expression: nodes.Node, near: list[Origin]) -> bool:
        if near[0].influence is not Influence.LATER_MESSAGES:
            return False
        if any(self._is_constant(part) for part in _conjuncts(expression)):
            return True
        return is_settled(self.template, expression)

    def _is_constant(self, part: nodes.Node) -> bool:
        """``not add_generation_prompt``: servers always ask for one."""
        return (
            type(part) is nodes.Not
            and type(part.node) is nodes.Name
            and part.node.name == "add_generation_prompt"
        )


def _is_appended_to(assignment: nodes.Assign) -> bool:
    """``ns.seen = ns.seen + [message]``: a list that only grows at its end."""
    target, value = assignment.target, assignment.node
    return (
        type(target) is nodes.NSRef
        and type(value) is nodes.Add
        and type(value.left) is nodes.Getattr
        and type(value.left.node) is nodes.Name
        and (value.left.node.name, value.left.attr) == (target.name, target.attr)
        and type(value.right) is not nodes.Const  # a number counts
    )


def _conjuncts(expression: nodes.Node) -> Iterator[nodes.Node]:
    stack = [expression]
    while stack:
        node = stack.pop()
        if type(node) is nodes.And:
            stack += [node.left, node.right]
        else:
            yield node
