"""One conversation, replayed: every request's prompt against the stream of the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, Scenario, Turn, answer_of
from templatefix.chat.server import Server, Tools
from templatefix.dialect.author import Author, Completion, Unspoken
from templatefix.dialect.layout import Written
from templatefix.dialect.parsers import stripped, without_separator
from templatefix.prefix import common_prefix
from templatefix.replay.accounting import hit_tokens, ideal_tokens
from templatefix.tokens import Encoder, completion_ids, stream_ids

Client = Literal["faithful", "reasoning-dropping"]
#: The form in which a client gets an answer: ``raw`` as the parsers return it, ``verbatim`` with
#: the whitespace that they leave between content and a call, ``stripped`` of outer whitespace,
#: ``inline`` with reasoning inside the content, or as ``given``.
Replay = Literal["raw", "verbatim", "stripped", "inline", "given"]


@dataclass(frozen=True)
class Plan:
    """A run to be made: a scenario under kwargs, with a client and a replay form."""

    scenario: Scenario
    kwargs: Mapping[str, Any]
    client: Client = "faithful"
    replay: Replay = "raw"
    core: bool = True
    requested: bool = False

    @cached_property
    def id(self) -> str:
        """Names the run within its report."""
        kwargs = ",".join(f"{key}={_spell(value)}" for key, value in sorted(self.kwargs.items()))
        name = self.scenario.name + (f"-{self.scenario.variant}" if self.scenario.variant else "")
        return f"{name}/{kwargs or 'default'}/{self.client}/{self.replay}"


class Request(NamedTuple):
    """One request and what the server holds after it, in text and token ids.

    ``stream`` is the prompt alone where the completion is unknown.
    """

    messages: tuple[Message, ...]
    kwargs: Mapping[str, Any]
    prompt: str
    prompt_ids: list[int]
    completion: Completion | None
    stream: str
    stream_ids: list[int]
    answer: Answer | None = None

    def answered(self, answer: Answer) -> Request:
        """The request with the answer that came of it."""
        return self._replace(answer=answer)


class Comparison(NamedTuple):
    """The stream of one request against the prompt of the next; ``turn`` is the latter's.

    ``characters`` is the common prefix of the texts, ``reuse`` that of the ids. ``client_loss``
    is set where the answer's reasoning was not replayed: what is lost then is the client's.
    """

    turn: int
    before: Request
    after: Request
    characters: int
    reuse: int
    hit: int
    ideal: int
    preserving: bool
    stop_differs: bool
    client_loss: bool

    @property
    def lost(self) -> int:
        """Cached tokens that cannot be reused."""
        return self.ideal - self.hit


@dataclass(frozen=True)
class Run:
    """A replayed plan. ``preserving`` is None where nothing can be said."""

    plan: Plan
    requests: tuple[Request, ...]
    comparisons: tuple[Comparison, ...]
    preserving: bool | None
    lost_to: str | None
    completion: str
    tools: Tools = None
    notes: tuple[str, ...] = field(default=())


#: Requests of other runs, with their answers or without, by all that makes them what they are.
Made = dict[object, Request]


def replay(
    plan: Plan,
    author: Author,
    encoder: Encoder,
    block_size: int,
    server: Server | None = None,
    made: Made | None = None,
) -> Run:
    """Drive ``plan`` through the server. Lengths and hits are tokens, for ``block_size``.

    ``server`` renders the prompts in place of the author's own: with a patched template, say,
    while the completions stay what the model writes under the original. ``made`` remembers the
    requests of all runs with the same author, encoder and server: many of them send the same.

    Raises ``Unspoken``, ``Unpresentable``, ``Refused`` or ``Crashed`` where the run cannot be
    made.
    """
    scenario = plan.scenario
    tools = scenario.tools
    messages: list[Message] = []
    requests: list[Request] = []
    call_ids: tuple[str, ...] = ()
    for turn in scenario.turns:
        messages.extend(author.numbered(turn.new_messages, call_ids))
        # As it is where it can be: what is remembered of kwargs goes by their identity.
        kwargs = {**plan.kwargs, **turn.kwargs} if turn.kwargs else plan.kwargs
        turn = in_mode(scenario, turn, messages, kwargs, author)
        request = _request(tuple(messages), tools, kwargs, turn, author, encoder, server, made)
        if turn.answer is None:
            requests.append(request)
            break
        request = _answered(request, plan, turn, author, tools, made)
        requests.append(request)
        call_ids = author.parsers.call_ids(turn.answer.tool_calls, messages)
        messages.append(_replayed(plan, turn, request, author, call_ids))
    return _outcome(plan, tuple(requests), tools, encoder, block_size)


def rerun(run: Run, server: Server, encoder: Encoder, block_size: int) -> Run:
    """The same requests to another server: one with a patched template, say.

    Completions and answers stay what they were in ``run``. Raises ``Unpresentable``, ``Refused``
    or ``Crashed`` where the server does not render one of them.
    """
    requests = []
    for request, turn in zip(run.requests, run.plan.scenario.turns, strict=False):
        prompt = server.prompt(request.messages, run.tools, request.kwargs)
        ids = server.prompt_ids(request.messages, run.tools, request.kwargs, encoder, prompt)
        written = request.completion.written if request.completion else None
        stream, stream_ids = prompt, ids
        if written is not None:
            completed = request.stream_ids[len(request.prompt_ids) :]
            if prompt != request.prompt and turn.completion_ids is None:
                completed = completion_ids(encoder, prompt, ids, written.text)
            stream, stream_ids = prompt + written.text, ids + completed
        requests.append(
            request._replace(prompt=prompt, prompt_ids=ids, stream=stream, stream_ids=stream_ids)
        )
    return _outcome(run.plan, tuple(requests), run.tools, encoder, block_size)


def _request(
    messages: tuple[Message, ...],
    tools: Tools,
    kwargs: Mapping[str, Any],
    turn: Turn,
    author: Author,
    encoder: Encoder,
    server: Server | None,
    made: Made | None,
) -> Request:
    server = server or author.server
    if made is None or turn.given:
        return _new_request(messages, tools, kwargs, turn, author, encoder, server)
    key = server.key(messages, tools, kwargs), turn.answer, turn.cut
    known = made.get(key)
    if known is None:
        known = _new_request(messages, tools, kwargs, turn, author, encoder, server)
        made[key] = known
    return known


def _new_request(
    messages: tuple[Message, ...],
    tools: Tools,
    kwargs: Mapping[str, Any],
    turn: Turn,
    author: Author,
    encoder: Encoder,
    server: Server,
) -> Request:
    prompt = server.prompt(messages, tools, kwargs)
    completion = None
    if turn.answer is not None:  # which may be unspoken: then nothing need be encoded
        completion = _completion(messages, tools, kwargs, turn, author, encoder)
    prompt_ids = server.prompt_ids(messages, tools, kwargs, encoder, prompt)
    if completion is None or completion.written is None:
        return Request(messages, kwargs, prompt, prompt_ids, completion, prompt, prompt_ids)
    text = completion.written.text
    if turn.completion_ids is not None:
        ids = prompt_ids + list(turn.completion_ids)
    else:
        ids = stream_ids(encoder, prompt, prompt_ids, text)
    return Request(messages, kwargs, prompt, prompt_ids, completion, prompt + text, ids)


def _answered(
    request: Request, plan: Plan, turn: Turn, author: Author, tools: Tools, made: Made | None
) -> Request:
    """The request with the answer that the client gets."""
    if turn.replayed is not None:
        return request.answered(answer_of(turn.replayed))
    if made is None or turn.given:
        return request.answered(_answer(plan, turn, request, author, tools))
    key = id(request), plan.replay  # kept in what was made, which keeps its identity its own
    known = made.get(key)
    if known is None:
        known = made[key] = request.answered(_answer(plan, turn, request, author, tools))
    return known


def _completion(
    messages: Sequence[Message],
    tools: Tools,
    kwargs: Mapping[str, Any],
    turn: Turn,
    author: Author,
    encoder: Encoder,
) -> Completion:
    assert turn.answer is not None
    text = turn.completion
    if text is None and turn.completion_ids is not None:
        text = encoder.decode(turn.completion_ids)
    if text is not None:
        seat = author.seat(messages, tools, kwargs)
        return Completion(
            located(text, turn.answer, author.stops), "given", seat.tail, seat.state, seat.tags
        )
    answer = turn.answer
    if turn.replayed is not None:
        # Replayed fields carry the whitespace that the parser left around them.
        answer = stripped(answer)
    return author.completion(messages, tools, kwargs, answer, turn.cut)


def in_mode(
    scenario: Scenario,
    turn: Turn,
    messages: Sequence[Message],
    kwargs: Mapping[str, Any],
    author: Author,
) -> Turn:
    """The turn as the mode of its request holds it: no reasoning where the mode does not think."""
    if scenario.reasoning != "if-thinking" or turn.answer is None or not turn.answer.reasoning:
        return turn
    if author.state(messages, scenario.tools, kwargs) in ("opened", "free"):
        return turn
    return turn.answered(Answer(None, turn.answer.content, turn.answer.tool_calls))


def located(text: str, answer: Answer, stops: Sequence[str]) -> Written:
    """A given completion with the spans of the answer's fields found in it."""
    stop = max((s for s in stops if s and text.endswith(s)), key=len, default="")
    end = len(text) - len(stop)

    def find(part: str | None, start: int) -> tuple[int, int] | None:
        part = (part or "").strip()
        at = text.find(part, start) if part else -1
        return None if at < 0 else (at, at + len(part))

    reasoning = find(answer.reasoning, 0)
    content = find(answer.content, reasoning[1] if reasoning else 0)
    calls = None
    if answer.tool_calls:
        begin = (content or reasoning or (0, 0))[1]
        calls = (begin, end)
    return Written(text, reasoning, content, calls, (end, len(text)))


def _replayed(
    plan: Plan, turn: Turn, request: Request, author: Author, call_ids: tuple[str, ...]
) -> Message:
    """The assistant message that the client sends back."""
    if turn.replayed is not None:
        message = dict(turn.replayed)
        if plan.client == "reasoning-dropping":
            message = {k: v for k, v in message.items() if not k.startswith("reasoning")}
        return message
    answer = request.answer
    assert answer is not None
    if plan.client != "faithful":
        answer = Answer(None, answer.content, answer.tool_calls)
    return author.replayed(answer, call_ids)


def _answer(plan: Plan, turn: Turn, request: Request, author: Author, tools: Tools) -> Answer:
    meant = turn.answer
    assert meant is not None
    completion = request.completion
    if turn.cut is not None:
        meant = _meant_until(turn.cut, meant)
    if plan.replay == "stripped" or completion is None or completion.written is None:
        return stripped(meant)
    written = completion.written
    text = written.said
    if plan.replay == "inline":
        end = written.calls[0] if written.calls else len(text)
        return Answer(None, text[:end], meant.tool_calls)
    told = received(request, author, tools, cut=turn.cut is not None)
    if told is not None:
        return told if plan.replay == "verbatim" else without_separator(told, meant)
    if turn.cut == "call":
        if author.parsers.tool is None:
            raise Unspoken("what a parser makes of a call that was cut short is not known")
        return author.parsers.answer_to_a_cut_call(
            text, meant, state=completion.state, kwargs=request.kwargs, tools=tools
        )
    return author.parsers.answer(
        text,
        meant,
        state=completion.state,
        kwargs=request.kwargs,
        tools=tools,
        verbatim=plan.replay == "verbatim",
    )


def received(request: Request, author: Author, tools: Tools, *, cut: bool) -> Answer | None:
    """The answer of the server's own parsers; None where named dialects stand in for them."""
    assert request.completion is not None
    assert request.completion.written is not None
    ids = request.stream_ids[len(request.prompt_ids) :]
    begin, end = request.completion.written.stop
    if begin < end:
        # Servers keep the stop token to themselves; it is one token, and the last.
        ids = ids[:-1]
    return author.server.answer(
        request.messages, tools, request.kwargs, request.prompt_ids, ids, cut=cut
    )


def _meant_until(cut: str, meant: Answer) -> Answer:
    if cut == "reasoning":
        return Answer(meant.reasoning, None)
    return Answer(meant.reasoning, meant.content) if cut == "content" else meant


def compare(
    turn: int,
    before: Request,
    after: Request,
    encoder: Encoder,
    block_size: int,
    *,
    drops_reasoning: bool = False,
) -> Comparison:
    """What of one request's stream the prompt of a later one can reuse.

    ``drops_reasoning`` is whether the client sends answers back without their reasoning.
    """
    reuse = common_prefix(before.stream_ids, after.prompt_ids)
    stream_length, prompt_length = len(before.stream_ids), len(after.prompt_ids)
    characters = common_prefix(before.stream, after.prompt)
    written = before.completion.written if before.completion else None
    stop = written.stop[1] - written.stop[0] if written else 0
    needed = len(before.stream) - stop
    if encoder.approximate:
        # The last token of a stream has no KV: a cut answer may lose its last character.
        preserving = characters >= (needed if stop else len(before.stream) - 1)
        whole = characters >= len(before.stream)
    else:
        # Of tokens, for tokenizers may compose the characters of a text (NFC).
        preserving = reuse >= stream_length - 1
        whole = reuse >= stream_length
    generated = before.answer is not None and bool(before.answer.reasoning)
    return Comparison(
        turn,
        before,
        after,
        characters,
        reuse,
        hit_tokens(reuse, stream_length, prompt_length, block_size),
        ideal_tokens(stream_length, prompt_length, block_size),
        preserving,
        preserving and stop > 0 and not whole,
        drops_reasoning and generated,
    )


def _outcome(
    plan: Plan, requests: tuple[Request, ...], tools: Tools, encoder: Encoder, block_size: int
) -> Run:
    comparisons = tuple(
        compare(
            i + 2,
            before,
            after,
            encoder,
            block_size,
            drops_reasoning=plan.client == "reasoning-dropping",
        )
        for i, (before, after) in enumerate(pairwise(requests))
    )
    sources = {request.completion.source for request in requests if request.completion}
    order = ("unknown", "markers", "dialect", "given", "server", "training-view")
    completion = next((source for source in order if source in sources), "unknown")
    preserving: bool | None
    lost_to = None
    if all(comparison.preserving for comparison in comparisons):
        preserving = None if completion == "unknown" or not comparisons else True
    elif any(comparison.client_loss for comparison in comparisons):
        preserving, lost_to = None, "client"
    else:
        preserving = False
    return Run(plan, requests, comparisons, preserving, lost_to, completion, tools)


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
