"""What a model writes for each kind of answer, and what a past answer has to be printed with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jinja2 import nodes

from templatefix.chat.conversation import Message, assistant_message
from templatefix.dialect.author import Unspoken
from templatefix.findings.blame import Witness
from templatefix.patching.bench import Bench
from templatefix.patching.ladder.fold_place import Place, places
from templatefix.patching.ladder.rebuild_case import (
    CALLS,
    CONTENT,
    KINDS,
    LEAF,
    REASONING,
    Case,
    Evidence,
    Kind,
)
from templatefix.patching.ladder.rebuild_place import Region, region_of, seats
from templatefix.patching.proposals.scene import node_at
from templatefix.render import Crashed, Refused, RenderRequest
from templatefix.render.trace import Piece, Trace
from templatefix.syntax import Span

_ASKED: Message = {"role": "user", "content": "And then?"}


@dataclass(frozen=True)
class _View:
    """A traced rendering, and the pieces of the answer in it."""

    trace: Trace
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return self.trace.text[self.pieces[0].start : self.pieces[-1].end]


def gather(bench: Bench) -> Evidence:
    """The evidence of the bench's template. Raises :class:`Unbuildable`."""
    return _Gatherer(bench).evidence()


class _Gatherer:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._template = bench.subject.parsed
        tokens = dict(bench.subject.template.special_tokens)
        self._witness = Witness(self._template, bench.subject.server, tokens)
        self._places = tuple(places(bench))
        self._differs = False
        #: What history prints after an answer that has content and no calls.
        self._plain: str | None = None
        self._seated: dict[Span, tuple[nodes.Node, ...]] = {}
        self._tails: dict[int, tuple[str, tuple[Piece, ...]]] = {}

    def evidence(self) -> Evidence:
        views: list[tuple[Place, Kind, _View | None, _View | None]] = []
        spans: dict[Span, None] = {}
        for place in self._places:
            for kind in KINDS:
                if kind.called and not place.tools:
                    continue
                told, past = self._view(place, kind, ()), self._past(place, kind)
                views.append((place, kind, told, past))
                for view in (told, past):
                    spans.update({piece.span: None for piece in (view.pieces if view else ())})
        region = region_of(self._template, spans)
        self._tails = {id(p): self._tail(p, region.loop) for p in self._places}
        pieces = tuple(p for _, found in self._tails.values() for p in found)
        calls = self._calls_loop(region, [told for _, _, told, _ in views if told])
        plain = (
            self._end(past, k, "", "", None)
            for _, k, _, past in views
            if past and k.words and not k.called
        )
        self._plain = next((end for end in plain if end is not None), None)
        cases = tuple(self._case(*each, calls) for each in views)
        return Evidence(cases, region, calls, pieces, self._differs, self._prints_parts())

    def _prints_parts(self) -> bool:
        """Whether an image in the content of an answer is printed."""
        text = {"type": "text", "text": CONTENT}
        shown = []
        for parts in ([text], [text, {"type": "image"}]):
            messages = [{**_ASKED}, {"role": "assistant", "content": parts}]
            request = RenderRequest(messages, None, False, {})
            try:
                shown.append(self._bench.subject.server.renderer.render(request))
            except (Refused, Crashed):
                return False
        return CONTENT in shown[0] and shown[0] != shown[1]

    def _view(self, place: Place, kind: Kind, new: Sequence[Message]) -> _View | None:
        author = self._bench.subject.author
        ids = author.parsers.call_ids(kind.answer.tool_calls, place.messages)
        messages = [*place.messages, assistant_message(kind.answer, ids), *new]
        trace = self._witness.watch(messages, place.tools, place.kwargs, False)
        if trace is None:
            return None
        at = len(place.messages)
        pieces = tuple(p for p in trace.pieces if p.message == at and p.end > p.start)
        return _View(trace, pieces) if pieces else None

    def _past(self, place: Place, kind: Kind) -> _View | None:
        author = self._bench.subject.author
        ids = author.parsers.call_ids(kind.answer.tool_calls, place.messages)
        results = tuple(
            {"role": "tool", "tool_call_id": id_, "name": call.name, "content": "dry"}
            for id_, call in zip(ids, kind.answer.tool_calls, strict=True)
        )
        return self._view(place, kind, results or (_ASKED,)) or self._view(place, kind, (_ASKED,))

    def _tail(self, place: Place, loop: nodes.For) -> tuple[str, tuple[Piece, ...]]:
        """What the prompt prints after the messages, and the pieces of it.

        That is more than the generation prompt where something ends the last message.
        """
        trace = self._witness.watch(place.messages, place.tools, place.kwargs, True)
        if trace is None:
            return place.tail, ()
        end = self._template.span(loop).end
        pieces = tuple(p for p in trace.pieces if p.span.start >= end and p.end > p.start)
        if pieces and pieces[-1].end == len(trace.text):
            return trace.text[pieces[0].start :], pieces
        start = len(trace.text) - len(place.tail)
        return place.tail, tuple(p for p in trace.pieces if p.end > max(start, p.start))

    def _calls_loop(self, region: Region, views: Sequence[_View]) -> nodes.For | None:
        """The outermost loop inside of the region that prints arguments."""
        found: nodes.For | None = None
        for view in views:
            for piece in view.pieces:
                if LEAF not in view.trace.text[piece.start : piece.end]:
                    continue
                for loop in self._loops(piece.span, region):
                    if found is not None and loop is not found:
                        return None
                    found = loop
        return found

    def _loops(self, span: Span, region: Region) -> Iterator[nodes.For]:
        for seat in self._seats(span):
            outermost = None
            at: nodes.Node | None = seat
            while at is not None and at is not region.loop:
                if isinstance(at, nodes.For):
                    outermost = at
                place = self._template.parents.get(id(at))
                at = place.parent if place else None
            if at is not None and outermost is not None:
                yield outermost

    def _seats(self, span: Span) -> tuple[nodes.Node, ...]:
        """What printed a piece, or the calls of the macro that did."""
        if span not in self._seated:
            node = node_at(self._template, span)
            found = () if node is None else tuple(seats(self._template, node))
            self._seated[span] = found
        return self._seated[span]

    def _printed(self, view: _View, loop: nodes.For) -> tuple[int, int] | None:
        """The stretch of a rendering that a loop printed for the answer."""
        span = self._template.span(loop)
        inside = [p for p in view.pieces if self._inside(p.span, span)]
        return (inside[0].start, inside[-1].end) if inside else None

    def _inside(self, piece: Span, outer: Span) -> bool:
        if outer.start <= piece.start and piece.end <= outer.end:
            return True
        found = [self._template.span(seat) for seat in self._seats(piece)]
        return any(outer.start <= s.start and s.end <= outer.end for s in found)

    def _case(
        self,
        place: Place,
        kind: Kind,
        told: _View | None,
        past: _View | None,
        calls: nodes.For | None,
    ) -> Case:
        tail = self._tails[id(place)][0]
        unknown = Case(place, kind, False, tail=tail)
        author = self._bench.subject.author
        try:
            completion = author.completion(place.messages, place.tools, place.kwargs, kind.answer)
        except Unspoken:
            return unknown
        written = completion.written
        if written is None or past is None:
            return unknown
        text, stop = written.text, written.text[slice(*written.stop)]
        said = written.said
        before, after = said, ""
        spelling: tuple[str, str] | None = None
        if kind.called:
            stretch = self._printed(told, calls) if told and calls else None
            if told is not None and stretch is not None:
                printed = told.trace.text[slice(*stretch)]
                if printed not in text:
                    return unknown
                before, _, after = text.partition(printed)
                if stop and after.endswith(stop):
                    after = after.removesuffix(stop)
                else:  # the loop prints it
                    stop = ""
            else:
                spelled = self._spelled(place, kind, said)
                if spelled is None:
                    return unknown
                before, after, spelling = spelled
        # What the completion has behind its texts is in ``before`` where there are no calls.
        closed = after if kind.called else said.rpartition(_last_mark(kind))[2]
        end = self._end(past, kind, stop, closed, calls)
        if end is None:
            return unknown
        if told is not None and not told.text.endswith(end):
            self._differs = True
        parsed = author.parsers.answer(
            said, kind.answer, state=place.state, kwargs=place.kwargs, tools=place.tools
        )
        around = (_around(parsed.reasoning, REASONING), _around(parsed.content, CONTENT))
        return Case(place, kind, True, before, after + end, spelling, around, tail)

    def _spelled(
        self, place: Place, kind: Kind, said: str
    ) -> tuple[str, str, tuple[str, str]] | None:
        """A completion's texts before and after calls of JSON, and how these are spelled."""
        two = said
        if not kind.many:
            answer = Kind(kind.thought, kind.words, True, True).answer
            written = self._bench.subject.author.completion(
                place.messages, place.tools, place.kwargs, answer
            ).written
            if written is None:
                return None
            two = written.said
        first, second = CALLS[:2]
        pattern = "(.*?)".join(
            map(re.escape, (first.name, first.arguments, second.name, second.arguments))
        )
        match = re.search(pattern, two, re.DOTALL)
        if match is None or match[1] != match[3]:
            return None
        middle, between = match[1], match[2]
        before, after = two[: match.start()], two[match.end() :]
        if not kind.many and said != before + first.name + middle + first.arguments + after:
            return None
        return before, after, (middle, between)

    def _end(
        self, past: _View, kind: Kind, stop: str, closed: str, calls: nodes.For | None
    ) -> str | None:
        """What history prints after the answer: from the stop token on, whichever it is.

        ``closed`` is what the model itself writes behind the texts and the calls.
        """
        if stop and stop in past.text:
            return stop + past.text.rpartition(stop)[2]
        if kind.called:
            stretch = self._printed(past, calls) if calls else None
            if stretch is None:
                return self._plain
            rest = past.trace.text[stretch[1] : past.pieces[-1].end]
        else:
            mark = _last_mark(kind)
            if mark not in past.text:
                return None
            rest = past.text.partition(mark)[2]
        return rest.removeprefix(closed)


def _last_mark(kind: Kind) -> str:
    """What an answer without calls ends with."""
    return CONTENT if kind.words else REASONING


def _around(field: str | None, mark: str) -> tuple[str, str]:
    before, found, after = (field or "").partition(mark)
    return (before, after) if found else ("", "")
