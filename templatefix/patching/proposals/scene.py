"""A failure as a repair sees it: the traces on both sides, and the answer's own parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from jinja2 import nodes

from templatefix.dialect.layout import Written
from templatefix.findings.blame import Witness
from templatefix.patching.bench import Bench, Failure, Trial, parsed
from templatefix.render.trace import Branch, Piece, Trace
from templatefix.replay.run import Request
from templatefix.syntax import Span, Template, spelled
from templatefix.syntax.conversation import Conversation, find_conversation

#: No tag of a chat format is longer than this, in characters.
_TAG = 40


@dataclass(frozen=True)
class Scene:
    """One failure of a candidate, and what is needed to propose edits of the candidate's source."""

    bench: Bench
    trial: Trial
    failure: Failure

    @cached_property
    def at(self) -> int:
        """The character where stream and prompt part; before a tag that they part within."""
        at = self.failure.comparison.characters
        begin = self.stream.rfind("<", max(0, at - _TAG), at)
        if begin >= 0 and ">" not in self.stream[begin:at] and ">" in self.stream[at : at + _TAG]:
            return begin
        return at

    @property
    def stream(self) -> str:
        return self.failure.comparison.before.stream

    @property
    def prompt(self) -> str:
        return self.failure.comparison.after.prompt

    @cached_property
    def template(self) -> Template:
        return parsed(self.trial.text)

    def field(self, variable: str, name: str) -> str:
        """A field of the message that a variable holds, as the original spells it."""
        return spelled(self.bench.subject.parsed, variable, name)

    def given(self, variable: str, name: str, *spans: Span) -> str:
        """The condition that a message has a field, at source that prints or decides.

        Without ``spans``: at the divergence.
        """
        return self.guarded(variable, name, self.field(variable, name), *spans)

    def guarded(self, variable: str, name: str, field: str, *spans: Span) -> str:
        """The same, for a field that is spelled in a way of its own.

        Where other messages come by, it is asked first whether there is such a field: a look at
        one that is missing takes Jinja ten times as long.
        """
        pieces = (self.before_piece, self.here_piece)
        where = spans or tuple(piece.span for piece in pieces if piece is not None)
        alone = self._shared.isdisjoint(where)
        return field if alone else f"'{name}' in {variable} and {field}"

    def held(self, variable: str, name: str, span: Span) -> list[str]:
        """The variables that the template has set to a field before a span: quicker to look at."""
        field = re.compile(rf"{variable}(\.{name}|\[(['\"]){name}\2\])")
        found = {
            node.target.name: None
            for node, _, _ in self.template.placed(nodes.Assign)
            if isinstance(node, nodes.Assign)
            and isinstance(node.target, nodes.Name)
            and field.fullmatch(self.template.source(node.node))
            and self.template.span(node).end <= span.start
        }
        return list(found)

    @cached_property
    def _shared(self) -> frozenset[Span]:
        """The source that is run for messages other than answers, too."""
        if self.now is None:
            return frozenset()
        run: list[Piece | Branch] = [*self.now.pieces, *self.now.branches]
        roles = [message["role"] for message in self.failure.comparison.after.messages]
        return frozenset(
            each.span
            for each in run
            if each.message is not None and roles[each.message] != "assistant"
        )

    @cached_property
    def witness(self) -> Witness:
        assert self.trial.server is not None
        tokens = dict(self.bench.subject.template.special_tokens)
        return Witness(self.template, self.trial.server, tokens)

    @cached_property
    def now(self) -> Trace | None:
        """The rendering of the prompt that does not continue the stream."""
        after = self.failure.comparison.after
        return self.witness.watch(after.messages, self.failure.run.tools, after.kwargs, True)

    @cached_property
    def asked(self) -> Trace | None:
        """The rendering of the prompt to which the answer was written."""
        request = self.answered
        return self.witness.watch(request.messages, self.failure.run.tools, request.kwargs, True)

    @cached_property
    def told(self) -> Trace | None:
        """The rendering that ends in the answer."""
        after, request = self.failure.comparison.after, self.answered
        count = len(request.messages) + 1
        return self.witness.watch(
            after.messages[:count], self.failure.run.tools, request.kwargs, False
        )

    @cached_property
    def answered(self) -> Request:
        """The request whose answer the failure is about: the last one, or an earlier one."""
        index = self.failure.evidence.message
        for request in self.failure.run.requests:
            if len(request.messages) == index:
                return request
        return self.failure.comparison.before

    @property
    def written(self) -> Written | None:
        completion = self.answered.completion
        return completion.written if completion else None

    @cached_property
    def base(self) -> int:
        """Where the answer's completion begins in the stream."""
        return len(self.answered.prompt)

    @cached_property
    def before_piece(self) -> Piece | None:
        """The piece of the prompt that printed the last common character."""
        return self._piece(self.at - 1)

    @cached_property
    def here_piece(self) -> Piece | None:
        """The piece of the prompt that printed the first differing character."""
        return self._piece(min(self.at, len(self.prompt) - 1))

    def _piece(self, at: int) -> Piece | None:
        if self.now is None or self.now.text != self.prompt or at < 0:
            return None
        for piece in self.now.pieces:
            if piece.start <= at < piece.end:
                return piece
        return None

    @property
    def message(self) -> int | None:
        """The index of the message at fault."""
        if self.failure.evidence.message is not None:
            return self.failure.evidence.message
        return self.here_piece.message if self.here_piece else None

    def variable(self, span: Span) -> str | None:
        """The name of the loop variable that holds the message where ``span`` stands."""
        return variable_at(self.template, span)

    @cached_property
    def generation_guard(self) -> str | None:
        """The condition under which the generation prompt prints what it printed here.

        None where nothing but ``add_generation_prompt`` decides.
        """
        if self.asked is None:
            return None
        tail = self.answered.completion.tail if self.answered.completion else ""
        start = len(self.answered.prompt) - len(tail)
        at = max(min(self.at, len(self.asked.text) - 1), start)
        pieces = [piece for piece in self.asked.pieces if piece.start <= at < piece.end]
        return guard_of(self.template, pieces[0].span) if pieces else None


def variable_at(template: Template, span: Span) -> str | None:
    """The name of the loop variable that holds the message where ``span`` stands."""
    node = node_at(template, span)
    if node is None:
        return None
    conversation = find_conversation(template)
    loop = conversation.loop_around(node)
    return None if loop is None else variable_of(conversation, loop)


def variable_of(conversation: Conversation, loop: nodes.For) -> str | None:
    """The name of the variable that holds the message in a loop over the messages."""
    if conversation.holds_messages(loop.iter) and isinstance(loop.target, nodes.Name):
        return loop.target.name
    # A loop over positions: the message is what the loop sets from them.
    for assign in loop.find_all(nodes.Assign):
        value = assign.node
        if (
            isinstance(assign.target, nodes.Name)
            and isinstance(value, nodes.Getitem)
            and conversation.holds_messages(value.node)
        ):
            return assign.target.name
    return loop.target.name if isinstance(loop.target, nodes.Name) else None


def node_at(template: Template, span: Span) -> nodes.Node | None:
    """The outermost expression or piece of template data with exactly this span."""
    for place in template.places:
        if isinstance(place.node, (nodes.Expr, nodes.TemplateData)) and (
            template.span(place.node) == span
        ):
            return place.node
    return None


def operator_at(template: Template, node: nodes.Node) -> str:
    """The operator of the chain in which a leaf stands."""
    parent = template.parents[id(node)].parent
    return "~" if isinstance(parent, nodes.Concat) else "+"


def guard_of(template: Template, span: Span) -> str | None:
    """The tests of the ``if`` statements around a span, but for the generation prompt's own."""
    node = node_at(template, span)
    found: list[str] = []
    while node is not None and id(node) in template.parents:
        place = template.parents[id(node)]
        parent = place.parent
        if isinstance(parent, (nodes.If, nodes.CondExpr)) and place.field != "test":
            inside = place.field in ("body", "expr1")
            text = template.text[slice(*template.span(parent.test))]
            found += [f"({part})" if inside else f"not ({part})" for part in [text]]
            if inside and _asks_for_generation(parent.test):
                found.pop()
        node = parent
    kept = [part for part in found if part not in ("(add_generation_prompt)",)]
    return " and ".join(reversed(kept)) or None


def _asks_for_generation(test: nodes.Node) -> bool:
    return isinstance(test, nodes.Name) and test.name == "add_generation_prompt"


@dataclass(frozen=True)
class Flip:
    """A condition that came out one way for the answer when it was new and another way now."""

    span: Span
    then: bool


def flips(scene: Scene, message: int | None = None) -> list[Flip]:
    """Every condition of a message whose outcome changed, in order of evaluation.

    The message at fault, unless another one is given.
    """
    message = scene.message if message is None else message
    if scene.now is None or message is None:
        return []
    found: list[Flip] = []
    for view in (scene.told, scene.asked):
        if view is None:
            continue
        then = {b.span: b.outcome for b in _atoms(view, message)}
        for branch in _atoms(scene.now, message):
            if then.get(branch.span, branch.outcome) != branch.outcome:
                flip = Flip(branch.span, then[branch.span])
                if flip not in found:
                    found.append(flip)
    return found


def within(scene: Scene, flip: Flip) -> list[Flip]:
    """Conditions under a flipped one that came up for the new answer and never for history."""
    message = scene.message
    if scene.told is None or scene.now is None or message is None:
        return []
    known = {branch.span for branch in _atoms(scene.now, message)}
    bodies = [
        scene.template.span(place.parent)
        for place in scene.template.places
        if place.field == "test"
        and isinstance(place.parent, nodes.If)
        and _holds(scene.template.span(place.node), flip.span)
    ]
    found: list[Flip] = []
    for branch in _atoms(scene.told, message):
        inner = Flip(branch.span, branch.outcome)
        new = branch.span not in known and inner not in found
        if new and any(_holds(body, branch.span) for body in bodies):
            found.append(inner)
    return found[:3]


def _holds(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _atoms(trace: Trace, message: int) -> Iterator[Branch]:
    return (b for b in trace.branches if b.message == message and b.atom and not b.silent)
