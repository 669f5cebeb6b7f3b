"""TF202: what was said and is not printed is printed where the template prints its like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jinja2 import nodes

from templatefix.chat.conversation import Message
from templatefix.findings.printed import lost
from templatefix.patching.contract.c4 import handed_on
from templatefix.patching.contract.c5 import gone
from templatefix.patching.contract.exam import Outcome
from templatefix.patching.edits import Edit
from templatefix.patching.fixes.ground import Case, Ground, Proposal
from templatefix.patching.proposals.scene import node_at, variable_at
from templatefix.render.trace import Piece, Trace
from templatefix.syntax import Span, Template, spelled

#: What a template reads a lost thing from; the rest is told apart by the role.
_CALLS = "tool_calls"


_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_FAR = 2


class _Loss(NamedTuple):
    """A request of which something is lost: the message at fault, and what it is."""

    case: Case
    message: int
    what: str

    @property
    def role(self) -> str:
        return str(self.case.input.messages[self.message].get("role"))

    @property
    def is_call(self) -> bool:
        return "tool call" in self.what


def leave(ground: Ground, case: Case, after: Outcome) -> bool:
    """A prompt that lacks something may gain it, and loses nothing that it has.

    What no server hands over rendered for the very reason that it was not looked at: a call
    without a function, say. It may fail where it is printed now.
    """
    before, messages = case.outcome.text, case.input.messages
    if case.render is handed_on and after.crash is not None:
        return any(_is_at_stake(ground, message) for message in messages)
    found = None if before is None else lost(messages, before)
    if before is None or after.text is None or found is None:
        return False
    if gone(messages, before, after.text) is not None:
        return False
    # An answer that is printed is ended already: what it gains must not end it once more.
    answers = messages[found[0]].get("role") == "assistant"
    return not answers or _stops(ground, before) == _stops(ground, after.text)


def _stops(ground: Ground, prompt: str) -> list[int]:
    return [prompt.count(stop) for stop in ground.subject.author.stops]


def _is_at_stake(ground: Ground, message: Message) -> bool:
    """Whether a message is of a kind of which something is lost."""
    role, calls = message.get("role"), message.get(_CALLS)
    return any(
        (calls if "tool call" in finding.detail else f" {role} message" in finding.detail)
        for finding in ground.shown("TF202")
    )


def proposals(ground: Ground) -> Iterator[Proposal]:
    """Ways to the output that prints it in other cases; then that output, put where it belongs."""
    loss = _first_loss(ground)
    if loss is None:
        return
    one = loss.case.input
    now = ground.witness.watch(one.messages, one.tools, one.kwargs, one.generation_prompt)
    if now is None:
        return
    template = ground.subject.parsed
    yield from _dropped(template, now, loss)
    yield from _widened(template, now, loss)
    yield from _split(template, loss)
    if loss.role == "assistant" and not loss.is_call:
        yield from _inserted(ground, now, loss)


def _first_loss(ground: Ground) -> _Loss | None:
    """The request behind the first finding: all that it asks for is core and was rendered."""
    wanted = {finding.detail for finding in ground.shown("TF202")}
    for case in ground.requests:
        if case.outcome.text is None or not case.input.generation_prompt:
            continue
        found = lost(case.input.messages, case.outcome.text)
        if found is not None and found[1] in wanted:
            return _Loss(case, *found)
    return None


def _tests(template: Template, now: Trace, loss: _Loss) -> Iterator[tuple[nodes.Expr, bool]]:
    """The conditions that were evaluated for the message, the last ones first."""
    seen = set()
    for branch in reversed(now.branches):
        if branch.message != loss.message or not branch.atom or branch.span in seen:
            continue
        seen.add(branch.span)
        node = node_at(template, branch.span)
        if isinstance(node, nodes.Expr):
            yield node, branch.outcome


def _dropped(template: Template, now: Trace, loss: _Loss) -> Iterator[Proposal]:
    """A part of a condition is taken out: what else the condition asks for is enough."""
    for node, outcome in _tests(template, now, loss):
        parent = template.parents[id(node)].parent
        if outcome or not isinstance(parent, nodes.And):
            continue
        left, right = template.outer_span(parent.left), template.outer_span(parent.right)
        cut = Span(left.start, right.start) if parent.left is node else Span(left.end, right.end)
        words = f"{loss.what} is printed whether or not `{template.source(node)}`"
        yield Proposal((Edit(*cut, ""),), words)


def _widened(template: Template, now: Trace, loss: _Loss) -> Iterator[Proposal]:
    """A condition holds, or does not, for messages of this kind as well."""
    tests = list(_tests(template, now, loss))
    for node, outcome in sorted(tests, key=lambda test: _distance(test[0], loss.role)):
        span = template.span(node)
        variable = variable_at(template, span)
        if variable is None or _distance(node, loss.role) > _FAR:
            continue
        kind = f"{spelled(template, variable, 'role')} == '{loss.role}'"
        reasons = [spelled(template, variable, _CALLS)] if loss.is_call else [kind]
        for reason in reasons:
            text = template.text[slice(*span)]
            if text == reason:
                continue
            whole = template.parents[id(node)].field == "test"
            widened = f"{text} and not {reason}" if outcome else f"{text} or {reason}"
            yield Proposal(
                (Edit(*span, widened if whole else f"({widened})"),),
                f"{loss.what} takes the branch of `{' '.join(text.split())}`"
                if not outcome
                else f"{loss.what} does not take the branch of `{' '.join(text.split())}`",
            )


def _distance(test: nodes.Expr, role: str) -> int:
    """How far the role that a condition asks for is from that of the lost message.

    What a user or a tool says must not look like the model's own words.
    """
    consts = [test, *test.find_all(nodes.Const)]
    named = {each.value for each in consts if isinstance(each, nodes.Const)} & _ROLES
    if not named or role in named:
        return 0
    if "assistant" in named or role == "assistant":
        return _FAR + 1
    near = "system" if role in ("system", "developer") else "user"
    return 1 if near in named else 2


def _split(template: Template, loss: _Loss) -> Iterator[Proposal]:
    """An ``elif`` becomes an ``if`` of its own: one message may have both."""
    for _, value, span in template.tokens("name"):
        if value != "elif":
            continue
        begin = template.text.rfind("{%", 0, span.start)
        opening = template.text[begin : span.start].rstrip()
        edit = Edit(begin, span.end, f"{opening} endif %}}{opening} if")
        words = f"{loss.what} is printed beside what an earlier branch prints"
        yield Proposal((edit,), words)


def _inserted(ground: Ground, now: Trace, loss: _Loss) -> Iterator[Proposal]:
    """The content of an answer, where an answer without calls has it."""
    found = _how_content_is_printed(ground)
    pieces = [piece for piece in now.pieces if piece.message == loss.message]
    if found is None or not pieces:
        return
    lead, expression = found
    template = ground.subject.parsed
    begin = pieces[0].start
    for length in range(len(lead), 0, -1):
        at = begin + length
        if now.text[begin:at] != lead[:length]:
            continue
        words = f"{loss.what} is printed where an answer without calls has it"
        for edit in _at(template, now, at, expression):
            yield Proposal((edit,), words)


def _how_content_is_printed(ground: Ground) -> tuple[str, str] | None:
    """What a plain answer begins with, and the expression that prints its content."""
    template = ground.subject.parsed
    for case in ground.requests:
        one = case.input
        for index, message in enumerate(one.messages):
            content = message.get("content")
            if message.get("role") != "assistant" or message.get(_CALLS):
                continue
            if not isinstance(content, str) or not content.strip() or case.outcome.text is None:
                continue
            seen = ground.witness.watch(one.messages, one.tools, one.kwargs, one.generation_prompt)
            pieces = [p for p in (seen.pieces if seen else ()) if p.message == index]
            if seen is None or not pieces:
                continue
            at = seen.text.find(content.strip(), pieces[0].start)
            here = next((p for p in pieces if p.start <= at < p.end), None)
            if here is not None and isinstance(node_at(template, here.span), nodes.Expr):
                text = template.text[slice(*here.span)]
                return seen.text[pieces[0].start : here.start], text
    return None


def _at(template: Template, now: Trace, at: int, expression: str) -> Iterator[Edit]:
    """The expression printed at a character: after the piece that ends there, or within one."""
    for piece in now.pieces:
        if not piece.start < at <= piece.end:
            continue
        node = node_at(template, piece.span)
        if isinstance(node, nodes.TemplateData):
            offset = _offset(template, now, piece, at)
            if offset is not None:
                yield Edit(offset, offset, f"{{{{ {expression} }}}}")
        elif isinstance(node, nodes.Expr) and at == piece.end:
            end = template.outer_span(node).end
            parent = template.parents[id(node)].parent
            operator = "~" if isinstance(parent, nodes.Concat) else "+"
            yield Edit(end, end, f" {operator} {expression}")
            printed = template.print_span(node)
            if printed is not None:
                yield Edit(printed.end, printed.end, f"{{{{ {expression} }}}}")


def _offset(template: Template, now: Trace, piece: Piece, at: int) -> int | None:
    """The place in the source of a character that template data printed."""
    begin = template.text[slice(*piece.span)].find(now.text[piece.start : piece.end])
    return None if begin < 0 else piece.span.start + begin + at - piece.start
