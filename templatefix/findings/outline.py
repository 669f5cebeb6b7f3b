"""A template's conditions, assignments and expressions by where they stand, found once.

Blame asks about every break of a template; walking the tree anew each time is what would cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import nodes

from templatefix.syntax import Span, Template


@dataclass(frozen=True)
class Assignment:
    """A ``set``: the variable, and its value with all expressions in that."""

    target: str | None
    expressions: tuple[nodes.Node, ...]


@dataclass(frozen=True, eq=False)
class Outline:
    """``branches``: the test and the whole of every ``if``, inline if and filtered loop.

    ``deciders``: the tests in an ``if`` or a ``set``, and the variables that are set in it.
    ``assignments`` are in the order of the source.
    """

    branches: tuple[tuple[Span, Span], ...]
    deciders: tuple[tuple[tuple[Span, ...], frozenset[str | None]], ...]
    assignments: tuple[Assignment, ...]
    _expressions: tuple[nodes.Expr, ...]
    _starts: tuple[int, ...]
    _ends: tuple[int, ...]

    def within(self, span: Span) -> list[nodes.Node]:
        """The expressions that stand within a span of the source."""
        first = bisect_left(self._starts, span.start)
        last = bisect_left(self._starts, span.end + 1)
        return [self._expressions[i] for i in range(first, last) if self._ends[i] <= span.end]

    @lru_cache(maxsize=256)  # noqa: B019 - outlines are few and small
    def sources(self, span: Span) -> tuple[frozenset[str], tuple[nodes.Node, ...]]:
        """The variables that the expressions in a span read, through assignments.

        With them all the expressions that are read so, nearest first.
        """
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
    branches, deciders, assignments, expressions = [], [], [], []
    for node, _, _ in template.places:
        if isinstance(node, (nodes.If, nodes.CondExpr)):
            branches.append((template.span(node.test), template.span(node)))
        if isinstance(node, nodes.For) and node.test is not None:
            branches.append((template.span(node.test), template.span(node)))
        if isinstance(node, nodes.Assign):
            values = (node.node, *template.below(node.node, nodes.Expr))
            assignments.append(Assignment(_target(node), values))
        if isinstance(node, nodes.AssignBlock) and node.filter is not None:
            assignments.append(Assignment(_target(node), tuple(_filters(node.filter))))
        if isinstance(node, nodes.Expr):
            expressions.append(node)
        if isinstance(node, (nodes.If, nodes.Assign)):
            tests = tuple(template.span(test) for test in _tests(template, node))
            assigned = [node, *template.below(node, nodes.Assign)]
            targets = {_target(each) for each in assigned if isinstance(each, nodes.Assign)}
            if tests and targets:
                deciders.append((tests, frozenset(targets)))
    spans = [template.span(node) for node in expressions]
    return Outline(
        tuple(branches),
        tuple(deciders),
        tuple(assignments),
        tuple(expressions),
        tuple(span.start for span in spans),
        tuple(span.end for span in spans),
    )


def _tests(template: Template, node: nodes.If | nodes.Assign) -> list[nodes.Node]:
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
