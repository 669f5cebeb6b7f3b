"""Rendering that tells which source printed each character, and how every condition came out.

The text is the one that :class:`~templatefix.render.jinja.JinjaRenderer` renders: the same tree
runs in the same sandbox, compiled with calls to a recorder around values that it hands back
unchanged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import jinja2
from jinja2 import nodes

from templatefix.limits import Exceeded, Step, collected
from templatefix.render.jinja import (
    fault_of,
    make_environment,
    over_limit,
    pieces_of,
    rendering,
    template_variables,
)
from templatefix.render.protocol import RenderRequest, SyntaxFault
from templatefix.render.trace_record import Mark, Outcome, Recorder, marks_of
from templatefix.syntax import Span, Template, Unparsable, parse
from templatefix.syntax.code import code_of
from templatefix.syntax.generator import conditions


class Piece(NamedTuple):
    """Characters ``start`` to ``end`` of the rendered text and the source span that printed them.

    The span is template data, or a printed expression: for a ``+`` or ``~`` chain of strings the
    operand. What a macro or a ``set`` block printed points into it, unless a filter changed it
    afterwards: then at the expression that printed the change. ``message`` is the index in
    ``request.messages`` of the message at hand: the item of the loop (or the message of which it is
    a copy), else what the body of another loop or a macro was given.
    """

    start: int
    end: int
    span: Span
    message: int | None


class Branch(NamedTuple):
    """One evaluation of a condition of an ``if``, an inline if or a loop filter.

    ``atom``: it has no ``and``, ``or`` or ``not`` in it. ``whole``: it is all of the condition.
    ``silent``: it belongs to a loop that prints nothing, and causes nothing by itself.
    """

    span: Span
    outcome: bool
    message: int | None
    atom: bool
    whole: bool
    silent: bool


class _Condition(NamedTuple):
    span: Span
    atom: bool
    whole: bool
    silent: bool


@dataclass(frozen=True, eq=False)
class Trace:
    """A rendered text with its provenance.

    ``pieces`` cover the text without gaps, in order; ``branches`` are in the order of evaluation.
    Both are made when they are asked for: most traces are only asked about one place or message.
    ``outputs`` and ``loop_bodies`` count what was executed: the cost of the rendering, whatever
    the machine.
    """

    text: str
    outputs: int
    loop_bodies: int
    _marks: Sequence[Mark] = field(repr=False)
    _outcomes: Sequence[Outcome] = field(repr=False)
    _compiled: _Compiled = field(repr=False)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(map(self._piece, self._marks))

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        return tuple(map(self._branch, self._outcomes))

    def piece_at(self, at: int) -> Piece | None:
        """The piece that printed the character at ``at``; None beyond the end of the text."""
        index = bisect_right(self._marks, at, key=_end)
        return self._piece(self._marks[index]) if index < len(self._marks) else None

    def atoms(self, message: int) -> list[Branch]:
        """The branches of one message that are atoms and not silent."""
        ours = (self._branch(each) for each in self._outcomes if each[2] == message)
        return [each for each in ours if each.atom and not each.silent]

    def _branch(self, outcome: Outcome) -> Branch:
        place, came_out, message = outcome
        condition = self._compiled.condition(place)
        return Branch(condition.span, came_out, message, *condition[1:])

    def _piece(self, mark: Mark) -> Piece:
        start, end, place, message = mark
        return Piece(start, end, self._compiled.span(place), message)


#: Where the characters of a mark end.
_end = itemgetter(1)


class _Compiled:
    """A traced template, compiled; its code reports to ``environment.recorder``.

    What its places are is looked up when it is asked for: most are never asked about.
    """

    def __init__(
        self,
        environment: jinja2.Environment,
        template: jinja2.Template,
        parsed: Template,
        nodes_: Sequence[nodes.Node],
    ) -> None:
        self.environment = environment
        self.template = template
        self._parsed = parsed
        self._nodes = nodes_
        self._conditions: dict[int, _Condition] = {}

    def span(self, place: int) -> Span:
        return self._parsed.span(self._nodes[place])

    def condition(self, place: int) -> _Condition:
        """What is known of a condition before it is evaluated."""
        known = self._conditions.get(place)
        if known is None:
            known = self._conditions[place] = self._condition(self._nodes[place])
        return known

    def _condition(self, node: nodes.Node) -> _Condition:
        assert isinstance(node, nodes.Expr)
        template = self._parsed
        parts = islice(conditions(template, node), 2)
        return _Condition(
            template.span(node),
            atom=len(list(parts)) == 1,
            whole=template.parents[id(node)].field == "test",
            silent=any(id(loop) not in self._printing for loop in _loops_around(template, node)),
        )

    @cached_property
    def _printing(self) -> set[int]:
        """The identities of the loops that have something to print."""
        template = self._parsed
        return {
            id(loop)
            for place in template.placed(nodes.Output, nodes.CallBlock)
            for loop in _loops_around(template, place.node)
        }


def trace(text: str, request: RenderRequest, special_tokens: Mapping[str, str]) -> Trace:
    """Render a template and record how.

    Raises :class:`SyntaxFault`, :class:`Refused` and :class:`Crashed` as rendering does.
    """
    compiled = _compile(text)
    variables = template_variables(request, special_tokens)
    recorder = Recorder(variables["messages"], request.clock)
    compiled.environment.recorder = recorder  # type: ignore[attr-defined]
    step = rendering(request)
    try:
        with step:
            rendered = recorder.gather(collected(pieces_of(compiled.template, variables)))
    except Exceeded as fault:
        raise over_limit(fault, step, compiled.template) from None
    except Exception as fault:
        raise fault_of(fault, compiled.template) from None
    return Trace(
        str(rendered),
        recorder.outputs,
        recorder.loop_bodies,
        marks_of(rendered),
        recorder.outcomes,
        compiled,
    )


@lru_cache(maxsize=8)
def _compile(text: str) -> _Compiled:
    environment = make_environment(lambda: _now(environment))
    step = Step("compiling")
    try:
        template = parse(text)
        with step:
            code = code_of(template)
            compiled = environment.template_class.from_code(
                environment,
                compile(code.traced, "<template>", "exec"),
                # Copied for every rendering: a plain dictionary is quick to copy.
                dict(environment.make_globals(None)),
            )
    except Exceeded as fault:
        raise SyntaxFault(step.note(fault), None, "TF601") from None
    except Unparsable as fault:
        raise SyntaxFault(fault.message, fault.line, fault.code) from None
    except jinja2.TemplateSyntaxError as fault:
        raise SyntaxFault(fault.message or str(fault), fault.lineno) from None
    except SyntaxError as fault:
        raise SyntaxFault(fault.msg, None) from None
    except (RecursionError, ValueError, OverflowError, MemoryError) as fault:
        raise SyntaxFault(f"{type(fault).__name__}: {fault}", None) from None
    return _Compiled(environment, compiled, template, code.nodes)


def _now(environment: jinja2.Environment) -> datetime:
    recorder: Recorder = environment.recorder  # type: ignore[attr-defined]
    return recorder.clock


def _loops_around(template: Template, node: nodes.Node) -> Iterator[nodes.For]:
    """The loops in which a node stands, or which it filters."""
    parents = template.parents
    place = parents[id(node)]
    while place.parent is not None and type(place.parent) is not nodes.Template:
        if type(place.parent) is nodes.For and place.field != "else_":
            yield place.parent
        place = parents[id(place.parent)]
