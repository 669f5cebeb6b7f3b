"""The model's half of a chat: the text that it would have written for an answer.

The layout comes from the template's own training view; where that view does not continue the
prompt, from the named dialect of the format's parser, else from the thinking tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Cut, Message, assistant_message, numbered
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Kwargs, Server, Tools
from templatefix.dialect import layout as layouts
from templatefix.dialect.layout import Layout, Slot, Unlearnable, Written
from templatefix.dialect.parsers import Parsers
from templatefix.dialect.thinking import State, Tags, state_of, tags_around, tags_in
from templatefix.errors import again
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused

#: A kind of request: its kwargs as they are spelled, whether it has tools, and whether a tool's
#: result is last.
_Kind = tuple[bytes, bool, bool]

Source = Literal["training-view", "dialect", "markers", "given", "server", "unknown"]


class Completion(NamedTuple):
    """What the model emitted: text with the spans of its parts, and where it is known from.

    ``written`` is None for ``unknown`` completions. ``tail`` is the generation prompt's own text.
    """

    written: Written | None
    source: Source
    tail: str
    state: State
    tags: Tags | None


class Unspoken(Exception):
    """No model gives this answer in this mode: the run is not evaluated."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class _Seat:
    """The end of a prompt: its generation prompt, what it says of thinking, and the tags."""

    tail: str
    state: State
    tags: Tags | None


@dataclass(frozen=True)
class _Learned:
    layout: Layout | None
    source: Source


class Author:
    """Writes completions in the layout of one template."""

    def __init__(
        self,
        server: Server,
        stops: Sequence[str],
        added: Iterable[str],
        literals: Sequence[str],
        parsers: Parsers,
    ) -> None:
        self.server = server
        self.stops = tuple(stops)
        self.parsers = parsers
        self._added = frozenset(added)
        self._literals = tuple(literals)
        self._seats: dict[_Kind, _Seat] = {}
        self._layouts: dict[tuple[_Kind, Answer], _Learned] = {}
        # Modes differ in less than all of their texts: what one has shown is not learned again.
        self._shown: dict[tuple[str, Answer, tuple[str, ...]], Layout | Unlearnable] = {}
        # A server looks at a message once, and knows it again by its identity.
        self._replayed: dict[tuple[Answer, tuple[str, ...]], Message] = {}
        self._numbered: dict[tuple[int, tuple[str, ...]], tuple[object, list[Message]]] = {}

    @property
    def kinds(self) -> int:
        """How many kinds of requests, told apart by their kwargs too, are remembered."""
        return len(self._seats) + len(self._layouts)

    def forget(self) -> None:
        """Let go of what was learned, where kwargs without end would pile it up."""
        self._seats.clear()
        self._layouts.clear()
        self._shown.clear()
        self._replayed.clear()
        self._numbered.clear()

    def replayed(self, answer: Answer, call_ids: tuple[str, ...]) -> Message:
        """The message that a faithful client replays, the same one for the same answer."""
        key = answer, call_ids
        known = self._replayed.get(key)
        if known is None:
            known = self._replayed[key] = assistant_message(answer, call_ids)
        return known

    def numbered(self, new: Sequence[Message], call_ids: tuple[str, ...]) -> Sequence[Message]:
        """New messages with the ids of calls in place of numbers, the same ones for the same."""
        if not call_ids:
            return new
        key = id(new), call_ids
        known = self._numbered.get(key)
        if known is None:
            known = self._numbered[key] = (new, numbered(new, call_ids))
        return known[1]

    def seat(self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> _Seat:
        """What the end of the prompt for ``messages`` says of the answer to come."""
        return self._seat(self._kind(messages, tools, kwargs), messages, tools, kwargs)

    def _seat(
        self, kind: _Kind, messages: Sequence[Message], tools: Tools, kwargs: Kwargs
    ) -> _Seat:
        known = self._seats.get(kind)
        if known is None:
            known = self._seats[kind] = self._find_seat(messages, tools, kwargs)
        return known

    def state(self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> State:
        """Whether the mode thinks."""
        return self.seat(messages, tools, kwargs).state

    def must_reason(self, seat: _Seat, kwargs: Kwargs) -> bool:
        """Whether an answer without reasoning would have no known completion in this mode."""
        if seat.state == "opened":
            return True
        return seat.state == "free" and self.parsers.needs_block(kwargs)

    def completion(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        answer: Answer,
        cut: Cut | None = None,
    ) -> Completion:
        """The completion that says ``answer``, or the part of it before ``cut``.

        Raises :class:`Unspoken` where no model of this mode gives such an answer.
        """
        kind = self._kind(messages, tools, kwargs)
        seat = self._seat(kind, messages, tools, kwargs)
        if answer.reasoning and seat.state in ("closed", "none"):
            raise Unspoken("this mode does not think")
        if not answer.reasoning and self.must_reason(seat, kwargs):
            raise Unspoken(
                "this mode leaves thinking open: what a model writes before an answer "
                "without reasoning is not known"
            )
        learned = self._layout(kind, messages, tools, kwargs, answer, seat)
        if learned.layout is None:
            return Completion(None, "unknown", seat.tail, seat.state, seat.tags)
        close = seat.tags.close if seat.tags else ""
        ids = self.parsers.call_ids(answer.tool_calls, messages)
        written = layouts.write(learned.layout, answer, close, ids)
        if cut is not None:
            written = _cut(written, cut)
        return Completion(written, learned.source, seat.tail, seat.state, seat.tags)

    def _kind(self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> _Kind:
        after_tool = bool(messages) and messages[-1].get("role") == "tool"
        return self.server.spelling(kwargs), bool(tools), after_tool

    def _find_seat(self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> _Seat:
        prompt = self.server.prompt(messages, tools, kwargs)
        bare = self._bare(messages, tools, kwargs, prompt)
        tail = prompt[common_prefix(prompt, bare) :]
        tags = self._tags(messages, tools, kwargs, prompt, tail)
        state = state_of(tail, tags)
        if state == "free" and messages and messages[-1].get("role") == "tool":
            state = self._after_tool(messages, tools, kwargs)
        return _Seat(tail, state, tags)

    def _after_tool(self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> State:
        """The state after a tool result whose prompt says nothing of thinking.

        A format that opens or closes thinking in the prompt after user messages, and does neither
        here, does not think here.
        """
        asked = [i for i, message in enumerate(messages) if message.get("role") == "user"]
        if not asked:
            return "free"
        before = self.seat(messages[: asked[-1] + 1], tools, kwargs)
        return "closed" if before.state in ("opened", "closed") else before.state

    def _bare(self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, prompt: str) -> str:
        """The prompt without its generation prompt."""
        try:
            return self.server.prompt(messages, tools, kwargs, generation_prompt=False)
        except (Refused, Crashed):
            return prompt

    def _tags(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        prompt: str,
        tail: str,
    ) -> Tags | None:
        shape = layouts.sentinels(Answer("r", "c"))
        try:
            body, _ = self._body(messages, tools, kwargs, shape, prompt)
            learned = self._learned(body, shape)
        except Unlearnable:
            learned = None
        if learned is not None:
            before, after = _around_reasoning(learned)
            tags = tags_around(before, after, tail)
            if tags is not None:
                return tags
        named = self.parsers.tags
        if named is not None and (
            named.close in tail
            or named.open in tail
            or any(named.close in text for text in self._literals)
        ):
            return named
        found = tags_in(tail, self._literals) if tail else None
        if found is not None and self._frames(found, messages, tools, kwargs, prompt):
            return None
        return found

    def _frames(
        self, tags: Tags, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, prompt: str
    ) -> bool:
        """Whether tags stand around answers, as in ``<bot>...</bot>``, and not around thoughts."""
        shape = layouts.sentinels(Answer(None, "c"))
        try:
            body, _ = self._body(messages, tools, kwargs, shape, prompt)
        except Unlearnable:
            return False
        before, said, after = body.partition(shape.content or "")
        return bool(said) and tags.close not in before and tags.close in after

    def _layout(
        self,
        kind: _Kind,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        answer: Answer,
        seat: _Seat,
    ) -> _Learned:
        shape = layouts.sentinels(answer)
        key = kind, shape
        known = self._layouts.get(key)
        if known is None:
            learned = self._learn(messages, tools, kwargs, shape, seat)
            for context in _contexts(messages):
                if learned.source == "training-view":
                    break
                other = self._learn(context, tools, kwargs, shape, seat)
                learned = other if _knows_more(other, learned, shape) else learned
            if learned.layout is not None and not learned.layout.stop:
                stop = self._stop(messages, tools, kwargs, shape)
                learned = replace(learned, layout=replace(learned.layout, stop=stop))
            known = self._layouts[key] = learned
        return known

    def _learn(
        self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, shape: Answer, seat: _Seat
    ) -> _Learned:
        found = self._learn_whole(messages, tools, kwargs, shape, seat)
        if not (shape.content and shape.tool_calls and found.source in ("dialect", "unknown")):
            return found
        if found.source == "dialect" and shape.reasoning:
            silent = shape._replace(reasoning=None)
            known = self._learn_whole(messages, tools, kwargs, silent, seat).source
            if known in ("training-view", "markers"):
                return found  # nothing but the reasoning is the dialect's
        return self._composed(messages, tools, kwargs, shape, seat) or found

    def _composed(
        self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, shape: Answer, seat: _Seat
    ) -> _Learned | None:
        """Content before calls, each as the template prints it where it stands alone.

        None where it does not print both of them.
        """
        alone = [
            self._learn_whole(messages, tools, kwargs, part, seat)
            for part in (
                shape._replace(tool_calls=()),
                shape._replace(content=None),
            )
        ]
        words, calls = (each.layout for each in alone)
        if words is None or calls is None:
            return None
        source: Source = "markers"
        if alone[1].source == "dialect":
            # The reasoning may be the dialect's; the calls have to be the template's.
            bare = shape._replace(reasoning=None, content=None)
            if self._learn_whole(messages, tools, kwargs, bare, seat).source == "dialect":
                return None
            source = "dialect"
        parts = layouts.before_calls(words, calls)
        if self.parsers.preamble is not None:
            parts = layouts.with_preamble(calls, *self.parsers.preamble)
        return None if parts is None else _Learned(Layout(parts, calls.stop), source)

    def _learn_whole(
        self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, shape: Answer, seat: _Seat
    ) -> _Learned:
        prompt = self.server.prompt(messages, tools, kwargs)
        try:
            body, extends = self._body(messages, tools, kwargs, shape, prompt)
        except Unlearnable:
            return self._from_dialect(shape, seat, kwargs)
        ids = self.parsers.call_ids(shape.tool_calls, messages)
        try:
            found = self._learned(body, shape, ids)
            if not extends or self._leaves_open(found, seat):
                raise Unlearnable("the training view does not continue the prompt")
            return _Learned(found, "training-view")
        except Unlearnable:
            pass
        return self._patched_up(body, shape, seat, kwargs, ids)

    def _body(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        shape: Answer,
        prompt: str,
    ) -> tuple[str, bool]:
        """What the training view prints for the answer, and whether it continues the prompt."""
        ids = self.parsers.call_ids(shape.tool_calls, messages)
        conversation = [*messages, self.replayed(shape, ids)]
        try:
            view = self.server.prompt(conversation, tools, kwargs, generation_prompt=False)
        except (Refused, Crashed, Unpresentable) as fault:
            raise Unlearnable(str(fault)) from None
        if view.startswith(prompt):
            return view[len(prompt) :], True
        bare = self._bare(messages, tools, kwargs, prompt)
        if not view.startswith(bare):
            raise Unlearnable("the training view rewrites the prompt")
        tail = prompt[len(bare) :] if prompt.startswith(bare) else ""
        header = common_prefix(view[len(bare) :], tail)
        header = _whole_tags(tail, header)
        if tail and not header:
            raise Unlearnable("the training view lacks the answer's header")
        return view[len(bare) + header :], False

    def _learned(self, body: str, shape: Answer, ids: tuple[str, ...] = ()) -> Layout:
        """The layout that a view's text shows. Raises :class:`Unlearnable`."""
        key = body, shape, ids
        known = self._shown.get(key)
        if known is None:
            try:
                known = layouts.learn(body, shape, self.stops, self._added, ids)
            except Unlearnable as fault:
                known = again(fault)
            self._shown[key] = known
        if isinstance(known, Unlearnable):
            raise again(known)
        return known

    def _leaves_open(self, found: Layout, seat: _Seat) -> bool:
        """Whether the prompt opened a thinking block that the layout never closes."""
        if seat.state != "opened" or seat.tags is None:
            return False
        text = "".join(part for part in found.parts if isinstance(part, str))
        return seat.tags.close not in text

    def _patched_up(
        self, body: str, shape: Answer, seat: _Seat, kwargs: Kwargs, ids: tuple[str, ...]
    ) -> _Learned:
        """The view's own text for content and calls, after reasoning in the dialect's layout."""
        silent = Answer(None, shape.content, shape.tool_calls)
        try:
            rest = self._learned(body, silent, ids)
        except Unlearnable:
            return self._from_dialect(shape, seat, kwargs)
        if seat.state in ("closed", "none"):
            return _Learned(Layout(_without_lead(rest, seat.tags), rest.stop), "markers")
        if shape.reasoning and shape.reasoning in body:
            try:
                whole = self._learned(body, shape, ids)
            except Unlearnable:
                return self._from_dialect(shape, seat, kwargs)
            if self._leaves_open(whole, seat):
                return self._from_dialect(shape, seat, kwargs)
            return _Learned(whole, "markers")
        lead, source = self._reasoning_lead(shape, seat, kwargs)
        if lead is None:
            return _Learned(None, "unknown")
        return _Learned(Layout((*lead, *_without_lead(rest, seat.tags)), rest.stop), source)

    def _from_dialect(self, shape: Answer, seat: _Seat, kwargs: Kwargs) -> _Learned:
        """Reasoning and calls in the layouts of the format's parsers."""
        text = self.parsers.said(shape)
        if text is None:
            return _Learned(None, "unknown")
        lead, source = self._reasoning_lead(shape, seat, kwargs)
        if lead is None:
            return _Learned(None, "unknown")
        if shape.tool_calls:
            source = "dialect"
        try:
            silent = Answer(None, shape.content, shape.tool_calls)
            ids = self.parsers.call_ids(shape.tool_calls, ())
            rest = layouts.learn(text, silent, (), (), ids)
        except Unlearnable:
            return _Learned(None, "unknown")
        return _Learned(Layout((*lead, *rest.parts), ""), source)

    def _reasoning_lead(
        self, shape: Answer, seat: _Seat, kwargs: Kwargs
    ) -> tuple[tuple[str | Slot, ...] | None, Source]:
        """The parts of a completion that come before its content."""
        if not shape.reasoning:
            return (
                ((), "markers") if seat.state in ("closed", "none", "free") else (None, "unknown")
            )
        opened = seat.state == "opened"
        named = self.parsers.around_reasoning(opened=opened)
        if named is not None:
            before, after = named
            lead: tuple[str | Slot, ...] = (before, Slot("reasoning"), after)
            return tuple(part for part in lead if part), "dialect"
        if seat.tags is None:
            return None, "unknown"
        opener = () if opened else (seat.tags.open + "\n",)
        return (*opener, Slot("reasoning"), "\n" + seat.tags.close + "\n\n"), "markers"

    def _stop(
        self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, shape: Answer
    ) -> str:
        """The stop token that the next prompt prints after such a turn, else the first."""
        if not self.stops:
            return ""
        ids = self.parsers.call_ids(shape.tool_calls, messages)
        follow_up = [*messages, self.replayed(shape, ids), {"role": "user", "content": "Next"}]
        try:
            prompt = self.server.prompt(follow_up, tools, kwargs, generation_prompt=False)
        except (Refused, Crashed, Unpresentable):
            return self.stops[0]
        texts = [text for text in (shape.content, *layouts.leaves(shape)) if text]
        after = max(
            (prompt.rfind(text) + len(text) for text in texts if text in prompt), default=-1
        )
        if after < 0:
            return self.stops[0]
        printed = [(prompt.find(stop, after), stop) for stop in self.stops if stop]
        printed = [found for found in printed if found[0] >= 0]
        return min(printed)[1] if printed else self.stops[0]


def _contexts(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Shorter conversations that end alike, for templates that move what comes first, or what an
    answer says beside its calls."""
    rest = [message for message in messages if message.get("role") != "system"]
    if rest and len(rest) < len(messages):
        yield rest
    silent = [{**each, "content": ""} if each.get("tool_calls") else each for each in rest]
    if silent != rest:
        yield silent


def _knows_more(other: _Learned, learned: _Learned, shape: Answer) -> bool:
    """Whether a shorter conversation taught more; content before calls is composed there too."""
    if other.source == "training-view":
        return True
    beside = bool(shape.content and shape.tool_calls) and other.source == "markers"
    return beside and learned.source in ("dialect", "unknown")


def _whole_tags(tail: str, length: int) -> int:
    """``length``, or where the tag begins that it would cut in two."""
    begin = tail.rfind("<", 0, length)
    if begin >= 0 and ">" not in tail[begin:length] and ">" in tail[length:]:
        return begin
    return length


def _around_reasoning(found: Layout) -> tuple[str, str]:
    parts = found.parts
    at = next(i for i, part in enumerate(parts) if isinstance(part, Slot))
    before = parts[at - 1] if at else ""
    after = parts[at + 1] if at + 1 < len(parts) else ""
    return (before if isinstance(before, str) else "", after if isinstance(after, str) else "")


def _without_lead(rest: Layout, tags: Tags | None) -> tuple[str | Slot, ...]:
    """The layout's parts without an empty or closing tag at their start, which the lead writes."""
    parts = rest.parts
    if tags is None or not parts or not isinstance(parts[0], str):
        return parts
    head = parts[0]
    found = head.find(tags.close)
    if found < 0:
        return parts
    remainder = head[found + len(tags.close) :].lstrip("\n")
    return (remainder, *parts[1:]) if remainder else parts[1:]


def _cut(written: Written, cut: Cut) -> Written:
    """The completion as far as it got when generation ended inside a field."""
    if cut == "reasoning":
        end = written.reasoning[1] if written.reasoning else 0
    elif cut == "content":
        end = written.content[1] if written.content else 0
    else:
        begin = written.calls[0] if written.calls else 0
        end = begin + (written.stop[0] - begin) // 2

    def clipped(span: tuple[int, int] | None) -> tuple[int, int] | None:
        return None if span is None or span[0] >= end else (span[0], min(span[1], end))

    return Written(
        written.text[:end],
        clipped(written.reasoning),
        clipped(written.content),
        clipped(written.calls),
        (end, end),
    )
