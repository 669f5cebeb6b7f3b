"""What printed text depends on, read from the tree alone.

A server can reuse what it has cached only while the text before the newest message stays as it
was. Text printed for a message therefore must not depend on later messages, and text before the
conversation neither on the clock, nor on chance, nor, if it can be helped, on request kwargs.

The analysis goes by names and ignores order and scopes: what it finds is a hazard and no proof.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from jinja2 import nodes

from templatefix.syntax.conversation import Conversation, find_conversation
from templatefix.syntax.flow import Variable
from templatefix.syntax.kwargs import kwargs
from templatefix.syntax.span import Span
from templatefix.syntax.template import Template

#: Steps after which the spreading of dependences ends: templates of people need some hundred.
SPREAD = 1_000_000


class Influence(StrEnum):
    """Where a dependence comes from."""

    LATER_MESSAGES = "later-messages"
    CLOCK = "clock"
    RANDOMNESS = "randomness"
    KWARG = "kwarg"


class Where(StrEnum):
    """Before, inside or after the loops that print the conversation."""

    HEAD = "head"
    HISTORY = "history"
    TAIL = "tail"


@dataclass(frozen=True)
class Origin:
    """The expression that brings a dependence in: ``loop.last``, ``strftime_now(...)``, a kwarg."""

    influence: Influence
    span: Span
    name: str


@dataclass(frozen=True)
class Dependence:
    """Outputs that an influence reaches at one place.

    ``at`` is what hands it on to the outputs: a condition around them, or the printed expression
    itself; ``conditional`` tells which. ``origins`` are where ``at`` has it from, and ``outputs``
    whom it reaches, both in the order of the source.
    """

    influence: Influence
    at: Span
    conditional: bool
    where: Where
    origins: tuple[Origin, ...]
    outputs: tuple[Span, ...]


def dependences(template: Template) -> tuple[Dependence, ...]:
    """Every dependence of an output that matters for reuse, in the order of the source.

    For outputs inside the loops over the messages: later messages, clock, randomness, kwargs. For
    outputs before and after them: clock, randomness, kwargs.
    """
    analysis = _Analysis(template)
    origins: dict[_Key, set[Origin]] = defaultdict(set)
    outputs: dict[_Key, set[Span]] = defaultdict(set)
    keys: dict[tuple[int, bool, Where], set[_Key]] = {}  # a condition is around many outputs
    for output, where in analysis.outputs():
        printed = template.span(output)
        for reader, conditional in analysis.readers(output):
            known = keys.get((id(reader), conditional, where))
            if known is None:
                known = keys[id(reader), conditional, where] = set()
                at = template.span(reader)
                for origin in analysis.origins(reader):
                    if where is Where.HISTORY or origin.influence is not Influence.LATER_MESSAGES:
                        key = (at, conditional, where, origin.influence)
                        known.add(key)
                        origins[key].add(origin)
            for key in known:
                outputs[key].add(printed)
    return tuple(
        Dependence(
            influence,
            at,
            conditional,
            where,
            tuple(sorted(origins[at, conditional, where, influence], key=_by_span)),
            tuple(sorted(outputs[at, conditional, where, influence])),
        )
        for at, conditional, where, influence in sorted(origins)
    )


#: The kinds of nodes that bring something in by themselves, or read a variable.
_TELLING = (nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Call)

#: The place that hands on, whether it is a condition, where it prints, and what it depends on.
_Key = tuple[Span, bool, Where, Influence]


def _by_span(origin: Origin) -> Span:
    return origin.span


class _Analysis:
    def __init__(self, template: Template) -> None:
        self.template = template
        self.conversation: Conversation = find_conversation(template)
        self.kwargs = frozenset(kwarg.name for kwarg in kwargs(template))
        self.carried: dict[Variable, frozenset[Origin]] = {}
        self._summaries: dict[int, tuple[frozenset[Origin], frozenset[Variable]]] = {}
        self.set_in_loop: dict[Variable, list[tuple[nodes.For, Origin]]] = defaultdict(list)
        self._guarded: dict[int, tuple[nodes.Node, ...]] = {}
        self._find_variables_set_in_loops()
        self._spread()

    def outputs(self) -> Iterator[tuple[nodes.Node, Where]]:
        """Whatever prints, with where it does so."""
        printing = self.conversation.printing_loops
        first = min((self.template.span(loop).start for loop in printing), default=None)
        for node in self.template.printed:
            if self.conversation.is_inside(node):
                yield node, Where.HISTORY
            elif first is None or self.conversation.position(node) < first:
                yield node, Where.HEAD
            else:
                yield node, Where.TAIL

    def readers(self, node: nodes.Node) -> Iterator[tuple[nodes.Node, bool]]:
        """The expressions that decide what an output prints: itself, and conditions around it."""
        if isinstance(node, nodes.Expr) and not isinstance(node, nodes.TemplateData):
            yield node, False
        for guard in self._guards(node):
            yield guard, True

    def origins(self, expression: nodes.Node) -> frozenset[Origin]:
        """What an expression depends on, by itself and through the variables it reads."""
        own, reads = self._summary(expression)
        return own.union(*(self.carried[read] for read in reads if read in self.carried))

    def _summary(self, expression: nodes.Node) -> tuple[frozenset[Origin], frozenset[Variable]]:
        """What an expression depends on by itself, and the variables it reads."""
        known = self._summaries.get(id(expression))
        if known is not None:
            return known
        found: set[Origin] = set()
        reads: set[Variable] = set()
        loop = self.conversation.loop_around(expression)
        variable = self.conversation.flow.variable
        for node in (expression, *self.template.below(expression, _TELLING)):
            found.update(self._own_origins(node))
            read = variable(node)
            if read is None:
                continue
            reads.add(read)
            # What another loop over the messages left behind knows how the conversation ends.
            for source, origin in self.set_in_loop.get(read, ()):
                if source is not loop:
                    found.add(origin)
        summary = frozenset(found), frozenset(reads)
        self._summaries[id(expression)] = summary
        return summary

    def _own_origins(self, node: nodes.Node) -> list[Origin]:
        found = []
        if type(node) is nodes.Name:
            if node.name in self.kwargs and node.ctx == "load":
                found.append(self._origin(Influence.KWARG, node, node.name))
        elif type(node) is nodes.Call and type(node.node) is nodes.Name:
            if node.node.name == "strftime_now":
                found.append(self._origin(Influence.CLOCK, node))
            elif node.node.name == "lipsum":
                found.append(self._origin(Influence.RANDOMNESS, node))
        elif type(node) is nodes.Filter and node.name == "random":
            found.append(self._origin(Influence.RANDOMNESS, node))
        if self.conversation.knows_the_end(node):
            found.append(self._origin(Influence.LATER_MESSAGES, node))
        return found

    def _origin(self, influence: Influence, node: nodes.Node, name: str | None = None) -> Origin:
        return Origin(influence, self.template.span(node), name or self.template.source(node))

    def _find_variables_set_in_loops(self) -> None:
        for node, _, _ in self.template.placed(nodes.Assign):
            if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.NSRef):
                target = self.conversation.flow.assigned(node)
                loop = self.conversation.loop_around(node)
                if loop is not None and target is not None:
                    origin = self._origin(
                        Influence.LATER_MESSAGES, node, f"{target[0]}.{target[1]}"
                    )
                    self.set_in_loop[target].append((loop, origin))

    def _spread(self) -> None:
        """Carry origins along assignments and into macros until nothing new arrives."""
        edges = [
            (target, [value, *self._guards(value)])
            for target, value in self.conversation.flow.edges
        ]
        readers: dict[Variable, list[int]] = defaultdict(list)
        for number, (_, expressions) in enumerate(edges):
            for expression in expressions:
                for read in self._summary(expression)[1]:
                    readers[read].append(number)
        queue = deque(range(len(edges)))
        waiting = set(queue)
        budget = SPREAD
        while queue and budget > 0:
            number = queue.popleft()
            waiting.discard(number)
            target, expressions = edges[number]
            known = self.carried.get(target, frozenset())
            arriving = known.union(*map(self.origins, expressions))
            budget -= len(arriving) + len(expressions)
            if len(arriving) > len(known):
                self.carried[target] = arriving
                for reader in readers[target]:
                    if reader not in waiting:
                        waiting.add(reader)
                        queue.append(reader)

    def _guards(self, node: nodes.Node) -> tuple[nodes.Node, ...]:
        """The conditions under which a node is reached, up to the macro that holds it."""
        if id(node) not in self._guarded:
            self._guarded[id(node)] = tuple(self._find_guards(node))
        return self._guarded[id(node)]

    def _find_guards(self, node: nodes.Node) -> Iterator[nodes.Node]:
        parents = self.template.parents
        place = parents[id(node)]
        while place.parent is not None and type(place.parent) is not nodes.Template:
            parent, field = place.parent, place.field
            if type(parent) is nodes.Macro:
                return
            if type(parent) is nodes.CondExpr and field != "test":
                yield parent.test
            elif type(parent) is nodes.For and field == "body":
                if parent.test is not None:
                    yield parent.test
                yield parent.iter  # even of messages: "messages[:last]" splits them by their end
            elif type(parent) is nodes.If and field != "test":
                yield parent.test
                if field == "else_":
                    yield from (branch.test for branch in parent.elif_)
                elif field == "elif_":
                    for branch in parent.elif_:
                        if branch is place.node:
                            break
                        yield branch.test
            place = parents[id(parent)]
