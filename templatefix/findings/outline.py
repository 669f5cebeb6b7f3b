"""A template's conditions, assignments and expressions by where they stand, found once.

Blame asks about every break of a template; walking the tree anew each time is what would cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from jinja2 import nodes

from templatefix.syntax import Span, Template
from templatefix.syntax.tree import kinds_of


@dataclass(frozen=True)
class Assignment:
    """A ``set``: the variable, and its value with all expressions in that."""

    target: str | None
    expressions: tuple[nodes.Node, ...]


class Outline:
    """What blame looks up in a template; each list is made when it is first asked for."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._sources: dict[Span, tuple[frozenset[str], tuple[nodes.Node, ...]]] = {}

    @cached_property
    def branches(self) -> tuple[tuple[Span, Span], ...]:
        """The test and the whole of every ``if``, inline if and filtered loop."""
        span = self._template.span
        return tuple(
            (span(test), span(place.node))
            for place in self._template.placed(nodes.If, nodes.CondExpr, nodes.For)
            if (test := getattr(place.node, "test", None)) is not None
        )

    @cached_property
    def deciders(self) -> tuple[tuple[tuple[Span, ...], frozenset[str | None]], ...]:
        """The tests in an ``if`` or a ``set``, and the variables that are set in it."""
        template = self._template
        found = []
        for node, _, _ in template.placed(nodes.If, nodes.Assign):
            tests = tuple(map(template.span, _tests(template, node)))
            if tests:
                targets = frozenset(map(_target, template.below(node, nodes.Assign)))
                if isinstance(node, nodes.Assign):
                    targets |= {_target(node)}
                if targets:
                    found.append((tests, targets))
        return tuple(found)

    @cached_property
    def assignments(self) -> tuple[Assignment, ...]:
        """Every ``set``, in the order of the source."""
        found = []
        for node, _, _ in self._template.placed(nodes.Assign, nodes.AssignBlock):
            if isinstance(node, nodes.Assign):
                values = (node.node, *self._template.below(node.node, nodes.Expr))
                found.append(Assignment(_target(node), values))
            elif isinstance(node, nodes.AssignBlock) and node.filter is not None:
                found.append(Assignment(_target(node), tuple(_filters(node.filter))))
        return tuple(found)

    @cached_property
    def _expressions(self) -> tuple[nodes.Node, ...]:
        kinds = kinds_of(nodes.Expr)
        return tuple(place.node for place in self._template.places if type(place.node) in kinds)

    def within(self, span: Span) -> list[nodes.Node]:
        """The expressions that stand within a span of the source."""
        first = bisect_left(self._expressions, span.start, key=self._start)
        last = bisect_left(self._expressions, span.end + 1, key=self._start)
        return [
            each
            for each in self._expressions[first:last]
            if self._template.span(each).end <= span.end
        ]

    def _start(self, node: nodes.Node) -> int:
        return self._template.span(node).start

    def sources(self, span: Span) -> tuple[frozenset[str], tuple[nodes.Node, ...]]:
        """The variables that the expressions in a span read, through assignments.

        With them all the expressions that are read so, nearest first.
        """
        known = self._sources.get(span)
        if known is None:
            known = self._sources[span] = self._find_sources(span)
        return known

    def _find_sources(self, span: Span) -> tuple[frozenset[str], tuple[nodes.Node, ...]]:
        names: set[str] = set()
        expressions = self.within(span)
        queue = list(expressions)
        while queue:
            name = _read(queue.pop())
            if name is None or name in names:
                continue
            names.add(name)
            for assignment in self.assignments:
                if assignment.target == name:
                    expressions += assignment.expressions
                    queue += assignment.expressions
        return frozenset(names), tuple(expressions)


@lru_cache(maxsize=4)
def outline(template: Template) -> Outline:
    """The outline of a template, the same for all who ask."""
    return Outline(template)


def _tests(template: Template, node: nodes.Node) -> list[nodes.Node]:
    tests: list[nodes.Node] = [node.test] if isinstance(node, nodes.If) else []
    return tests + [inner.test for inner in template.below(node, nodes.CondExpr)]


def _read(node: nodes.Node) -> str | None:
    if isinstance(node, nodes.Name) and node.ctx == "load":
        return node.name
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return f"{node.node.name}.{node.attr}"
    return None


def _filters(outermost: nodes.Expr) -> Iterator[nodes.Node]:
    """The filters of a ``set`` block: their chain ends in nothing, which is the block."""
    node: nodes.Expr | None = outermost
    while isinstance(node, nodes.Filter):
        yield node
        node = node.node


def _target(assign: nodes.Assign | nodes.AssignBlock) -> str | None:
    """The variable that a ``set`` sets, or the namespace's attribute as ``space.name``."""
    target = assign.target
    if isinstance(target, nodes.Name):
        return target.name
    return f"{target.name}.{target.attr}" if isinstance(target, nodes.NSRef) else None
