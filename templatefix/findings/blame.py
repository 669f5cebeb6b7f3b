"""Which line of the template is guilty of a divergence, and what happened there.

Two instruments: the source span that printed the first differing character on either side, and
the first condition that came out otherwise for the same message once it was history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import nodes

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Kwargs, Server, Tools
from templatefix.dialect.layout import leaves
from templatefix.findings.evidence import Evidence
from templatefix.findings.finding import Location
from templatefix.findings.outline import outline
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused, SyntaxFault
from templatefix.render.trace import Branch, Piece, Trace, trace
from templatefix.replay.run import Comparison
from templatefix.syntax import Span, Template


@dataclass(frozen=True)
class Blame:
    """The guilty places, the first of them the guiltiest, and one sentence on what happened."""

    locations: tuple[Location, ...]
    explanation: str


@dataclass(frozen=True)
class Witness:
    """What is needed to render a template again with a tracer watching."""

    template: Template
    server: Server
    special_tokens: dict[str, str]

    def watch(
        self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, generation_prompt: bool
    ) -> Trace | None:
        """The traced rendering; None where it cannot be made."""
        try:
            request = self.server.request(
                messages, tools, kwargs, generation_prompt=generation_prompt
            )
            return trace(self.template.text, request, self.special_tokens)
        except (Refused, Crashed, SyntaxFault, Unpresentable):
            return None

    def text(self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> str | None:
        """The text of a request's traced rendering, where it is known without making that."""
        if self.server.ours is not self.server:
            return None
        try:
            return self.server.prompt(messages, tools, kwargs)
        except (Refused, Crashed, Unpresentable):
            return None


#: The rendering of the earlier request, made when it is first asked for; None where it cannot be
#: made, or shows nothing of what is lost now.
_Asked = Callable[[], Trace | None]


@dataclass(frozen=True)
class _Flip:
    """A condition that came out one way then and the other way now."""

    span: Span
    then: bool


def blame(comparison: Comparison, evidence: Evidence, tools: Tools, witness: Witness) -> Blame:
    """Blame a divergence on the template. Where nothing can be blamed, the sentence says why."""
    before, after, at = comparison.before, comparison.after, comparison.characters
    if not witness.template.text:
        return Blame((), "no line can be blamed: the server's template is not at hand")
    now = witness.watch(after.messages, tools, after.kwargs, True)
    if now is None:
        return Blame((), "no line can be blamed: the prompt cannot be rendered under the tracer")
    if now.text != after.prompt and witness.server.ours is not witness.server:
        return Blame((), "no line can be blamed: the server renders this prompt otherwise")
    if now.text != after.prompt:
        return Blame((), "no line can be blamed: the same request is rendered otherwise each time")

    @cache
    def asked() -> Trace | None:
        text = witness.text(before.messages, tools, before.kwargs)
        if text is not None and not _shows(text, before.stream, at, evidence):
            return None  # nothing in it could be told from now
        return witness.watch(before.messages, tools, before.kwargs, True)

    told = _told(comparison, tools, witness) if at >= len(before.prompt) - _tail(before) else None
    printed_now = now.piece_at(min(at, len(now.text) - 1))
    printed_then = _printed_then(before.stream, at, asked, told)
    flip = None
    for then, message in _views(evidence, before.messages, asked, told, printed_now):
        if not _shows(then.text, before.stream, at, evidence):
            continue  # what is lost now was lost then: nothing that flipped since is the cause
        flip = _flip(witness.template, then, now, message, (printed_then, printed_now))
        if flip is not None:
            break
    return _verdict(
        witness.template,
        evidence,
        flip,
        printed_then,
        printed_now,
        _ended(now, at) if printed_now is not None and printed_now.start == at else None,
        now,
        after.messages,
        before.kwargs != after.kwargs,
    )


def _tail(request: object) -> int:
    completion = getattr(request, "completion", None)
    return len(completion.tail) if completion else 0


def _told(comparison: Comparison, tools: Tools, witness: Witness) -> Trace | None:
    """The answer as the template shows it while it is the last message."""
    count = len(comparison.before.messages) + 1
    return witness.watch(comparison.after.messages[:count], tools, comparison.before.kwargs, False)


def _printed_then(stream: str, at: int, asked: _Asked, told: Trace | None) -> Piece | None:
    """The piece that printed the stream's character at ``at``, in the fullest view of it."""
    if told is not None and common_prefix(told.text, stream) > at:
        return told.piece_at(at)
    request = asked()
    if request is not None and common_prefix(request.text, stream) > at:
        return request.piece_at(at)
    return None


def _views(
    evidence: Evidence,
    messages: Sequence[Message],
    asked: _Asked,
    told: Trace | None,
    printed_now: Piece | None,
) -> Iterator[tuple[Trace, int]]:
    """Earlier renderings to compare the conditions of a message with, and which message."""
    if evidence.message is not None and told is not None:
        yield told, evidence.message
    request = asked()
    if request is not None:
        if evidence.message is not None and evidence.message < len(messages):
            yield request, evidence.message
        if printed_now is not None and printed_now.message is not None:
            yield request, printed_now.message


def _flip(
    template: Template,
    then: Trace,
    now: Trace,
    message: int,
    pieces: tuple[Piece | None, Piece | None],
) -> _Flip | None:
    """The first condition of a message whose outcome changed, one around the printing if any."""
    flips = []
    ours, theirs = then.atoms(message), now.atoms(message)
    for earlier, later in zip(ours, theirs, strict=False):
        if earlier.span != later.span:
            break
        if earlier.outcome != later.outcome:
            flips.append(_Flip(earlier.span, earlier.outcome))
            break
    # Beyond the first flip the paths part: conditions are compared by where they stand, and those
    # in an inner loop round by round.
    earlier_rounds, later_rounds = _rounds(ours), _rounds(theirs)
    flips += [
        _Flip(span, was)
        for span, outcomes in later_rounds.items()
        for was, now_is in zip(earlier_rounds.get(span, ()), outcomes, strict=False)
        if was != now_is
    ]
    if not flips:
        return None
    return _within(flips, _enclosing(template, pieces)) or _within(
        flips, _feeding(template, pieces)
    )


def _within(flips: Sequence[_Flip], tests: Sequence[Span]) -> _Flip | None:
    """The first of the conditions that is one of the tests, or part of one."""
    return next(
        (flip for flip in flips if any(_inside(flip.span, test) for test in tests)),
        None,
    )


def _shows(text: str, stream: str, at: int, evidence: Evidence) -> bool:
    """Whether an earlier rendering shows what is lost now: the stream's character at ``at``.

    Or the reasoning that is gone, if without whitespace around it.
    """
    if common_prefix(text, stream) > at:
        return True
    if not evidence.reasoning_is_gone or evidence.reasoning is None:
        return False
    return evidence.stream_part[slice(*evidence.reasoning)].strip() in text


def _rounds(branches: Sequence[Branch]) -> dict[Span, list[bool]]:
    found: dict[Span, list[bool]] = {}
    for branch in branches:
        found.setdefault(branch.span, []).append(branch.outcome)
    return found


def _enclosing(template: Template, pieces: tuple[Piece | None, Piece | None]) -> list[Span]:
    """The tests of every ``if`` that holds one of the outputs."""
    spans = [piece.span for piece in pieces if piece is not None]
    return [
        test
        for test, whole in outline(template).branches
        if any(_inside(span, whole) for span in spans)
    ]


def _feeding(template: Template, pieces: tuple[Piece | None, Piece | None]) -> list[Span]:
    """The tests that decide on a variable that one of the outputs prints."""
    known = outline(template)
    wanted = {
        name for piece in pieces if piece is not None for name in known.sources(piece.span)[0]
    }
    return [
        test
        for tests, targets in known.deciders
        if not wanted.isdisjoint(targets)
        for test in tests
    ]


def _decision(template: Template, condition: Span) -> Span | None:
    """The expression that a condition's variable was set to, where it was set just once."""
    known = outline(template)
    for node in known.within(condition):
        if isinstance(node, nodes.Name) and template.span(node) == condition:
            values = [each.expressions[0] for each in known.assignments if each.target == node.name]
            if len(values) == 1 and not isinstance(values[0], (nodes.Const, nodes.Name)):
                return template.span(values[0])
    return None


#: Filters and methods that take something off a text, or put something else in its place.
_LOSSY = frozenset(
    "trim strip lstrip rstrip split rsplit replace lower upper title capitalize".split()
)


#: Of these, those that take whitespace off the ends, or the characters that they are given.
_STRIPS = frozenset("trim strip lstrip rstrip".split())


def _lossy(template: Template, piece: Piece, missing: str, said: str, seen: Trace) -> Span | None:
    """The filter or method that changes what a piece prints, followed through assignments.

    Of several the one that stands nearest before the printing: assignments run downwards.
    ``missing`` is the character that the stream holds where the prompt leaves it, ``said`` what
    the client sent back; ``seen`` is the rendering.
    """
    found = [
        template.span(node)
        for node in outline(template).sources(piece.span)[1]
        if _changes_text(node, missing, said) and _was_run(template, node, seen)
    ]
    before = [span for span in found if span.start <= piece.span.end]
    return max(before or found, default=None)


def _was_run(template: Template, node: nodes.Node, seen: Trace) -> bool:
    """Whether the ``if`` statements around a node ever let it be evaluated."""
    outcomes = {(branch.span, branch.outcome) for branch in seen.branches if branch.whole}
    place = template.parents.get(id(node))
    while place is not None and place.parent is not None:
        parent = place.parent
        if isinstance(parent, nodes.If) and place.field in ("body", "elif_", "else_"):
            wanted = place.field == "body"
            if (template.span(parent.test), wanted) not in outcomes:
                return False
        place = template.parents.get(id(parent))
    return True


def _changes_text(node: nodes.Node, missing: str, said: str) -> bool:
    if isinstance(node, nodes.Filter):
        name, arguments = node.name, node.args
    elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        name, arguments = node.node.attr, node.args
    else:
        return False
    given = arguments[0].value if arguments and isinstance(arguments[0], nodes.Const) else None
    if name not in _STRIPS:
        # A text that does not hold what is split off or replaced comes out as it went in.
        return name in _LOSSY and (given is None or str(given) in said)
    if not arguments:
        return missing.isspace()
    return given is None or missing in str(given)


def _said(answer: Answer | None) -> str:
    if answer is None:
        return ""
    return "\n".join((answer.reasoning or "", answer.content or "", *leaves(answer)))


def _inside(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _ended(now: Trace, at: int) -> Piece | None:
    """The piece that may have printed too little: the last before ``at`` that printed words.

    Blanks of a separator may agree with blanks that were trimmed off the text before it.
    """
    piece = now.piece_at(at - 1)
    while piece is not None and piece.start > 0 and not now.text[piece.start : piece.end].strip():
        piece = now.piece_at(piece.start - 1)
    return piece


def _verdict(
    template: Template,
    evidence: Evidence,
    flip: _Flip | None,
    then: Piece | None,
    now: Piece | None,
    ended: Piece | None,
    seen: Trace,
    messages: Sequence[Message],
    kwargs_differ: bool,
) -> Blame:
    shown_now = location(template, now.span, "printed-now", _note_now(evidence)) if now else None
    shown_then = location(template, then.span, "printed-then", "printed then") if then else None
    if then is not None and now is not None and then.span == now.span:
        shown_then = None
    if flip is not None:
        was, now_is = ("true", "false") if flip.then else ("false", "true")
        event = _event(evidence, messages)
        note = f"{was} when the answer was written, {now_is} once {event}"
        cause = location(template, flip.span, "cause", note)
        decided = _decision(template, flip.span)
        set_here = (
            location(template, decided, "cause", f"decides on {cause.snippet}") if decided else None
        )
        guilty = (set_here, cause, shown_now, shown_then)
        places = [place for place in guilty if place is not None]
        words = f"`{_short(cause.snippet)}` was {note}"
        return Blame(tuple(places), words)
    if shown_now is None:
        return Blame((), "no line can be blamed: the prompt ends here")
    if evidence.region == "completion" and not evidence.reasoning_is_gone:
        # Where text is missing at the end, what printed too little stands before the divergence.
        suspects = [piece for piece in (ended, now) if piece is not None]
        missing = evidence.stream_part[evidence.at : evidence.at + 1]
        said = _said(evidence.answer)
        spans = [
            span
            for piece in suspects
            if (span := _lossy(template, piece, missing, said, seen)) is not None
        ]
        span = next(iter(spans), None)
        if span is not None and now is not None and span != now.span and not evidence.dropped_block:
            changed = location(template, span, "cause", "changes the text")
            shown = [place for place in (shown_now, shown_then) if place is not None]
            words = f"`{_short(changed.snippet)}` changes the text before it is printed"
            return Blame((changed, *shown), words)
    places = [place for place in (shown_now, shown_then) if place is not None]
    if kwargs_differ:
        words = "the kwargs of the current request decide how past turns are printed"
    else:
        words = f"no condition decides this: {_never(evidence)}"
    return Blame(tuple(places), words)


def _short(snippet: str) -> str:
    """A snippet on one line, cut where it is long."""
    line = " ".join(snippet.split())
    return line if len(line) <= 60 else line[:57] + "..."


def _note_now(evidence: Evidence) -> str:
    if evidence.reasoning_is_gone:
        return "printed now, without the reasoning printed then"
    if evidence.dropped_block:
        return "printed now, without the empty block printed then"
    return "printed now"


def _never(evidence: Evidence) -> str:
    if evidence.reasoning_is_gone:
        return "this output never prints the reasoning"
    if evidence.dropped_block:
        return "this output never prints the empty thinking block"
    if evidence.region == "tail":
        return "this output never prints the end of the generation prompt"
    if evidence.region == "seam":
        if evidence.at < len(evidence.stream_part):
            return "this output ends the turn in every request"
        return "the text is the same, its tokens are not"
    return "this output prints the text otherwise in every request"


def _event(evidence: Evidence, messages: Sequence[Message]) -> str:
    index = evidence.message
    following = messages[index + 1 :] if index is not None else []
    if any(message.get("role") == "assistant" for message in following):
        return "the conversation goes on"
    roles = [message.get("role") for message in following]
    if roles and roles[-1] == "tool":
        return "a tool result follows"
    return f"a {roles[-1]} message follows" if roles else "it is history"


def location(template: Template, span: Span, role: str, note: str = "") -> Location:
    """A span of the source as a report shows it: lines and columns are 1-based."""
    begin, end = template.position(span.start), template.position(span.end)
    return Location(
        role,
        begin.line,
        begin.column,
        end.line,
        end.column,
        note,
        template.text[span.start : span.end],
    )
