"""One conversation with a live server: ask, replay the answer, ask again, and measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from templatefix.chat.conversation import Message
from templatefix.findings.verification import LiveRun, LiveTurn, Owner, Rendered
from templatefix.replay.accounting import ideal_tokens
from templatefix.serving.live.counters import Counters, Movement, movement
from templatefix.serving.live.judge import (
    Held,
    Prompt,
    divergence_of,
    lost_to_the_parser,
    predicted,
    predicted_of_prompts,
    reuse_of,
    verdict,
)
from templatefix.serving.live.reply import Reply
from templatefix.serving.live.script import Script, Unanswerable
from templatefix.serving.live.server import LiveServer
from templatefix.serving.live.wire import Unusable

if TYPE_CHECKING:  # most servers show enough: nothing is rendered here for them
    from templatefix.replay.run import Client

_REASONING = ("reasoning", "reasoning_content")

#: Extra fields for one request, given its turn (1-based) and its messages.
ExtraBody = Callable[[int, tuple[Message, ...]], Mapping[str, Any]]


@dataclass(frozen=True)
class Exchange:
    """A request of which the prompt's ids are asked for, or those of the ``answer`` to it.

    ``length`` is how many tokens the server counted.
    """

    messages: Sequence[Message]
    tools: Sequence[Message] | None
    kwargs: Mapping[str, Any]
    length: int
    answer: Message | None = None


#: What renders as the server does, such as ``twin.Twin``: the ids of an exchange, or None where
#: they are not as many as the server counted.
Rendering = Callable[[Exchange], list[int] | None]


@dataclass(frozen=True)
class Manner:
    """How requests are made. ``template`` is sent with each, ``salt`` keeps a conversation apart
    from what the cache holds already, ``each_body`` adds fields to single requests. ``twin``
    renders what the server does not show."""

    client: Client
    max_tokens: int
    streaming: bool
    token_ids: bool
    template: str | None = None
    salt: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    each_body: ExtraBody | None = None
    twin: Rendering | None = None


@dataclass(frozen=True)
class Cache:
    """What is expected of the server's cache: its blocks, in tokens; whether it is emptied before
    each turn but the first, so that only a store can answer; whether that holds answers too."""

    block_size: int
    reset: bool = False
    write_back: bool = True


class Conversation:
    """A conversation under way; :meth:`run` has it.

    ``before`` are the streams of earlier conversations, for servers that do not heed the salt.
    ``helds`` are its own, as they come.
    """

    def __init__(
        self,
        server: LiveServer,
        script: Script,
        manner: Manner,
        cache: Cache,
        before: Sequence[Held] = (),
    ) -> None:
        self._server = server
        self._script = script
        self._manner = manner
        self._cache = cache
        self._messages: list[Message] = []
        self.helds: list[Held] = []
        self._before = tuple(before)
        self._shared: tuple[Held, ...] = ()
        self._turns: list[LiveTurn] = []
        self._notes: list[str] = []
        # The answer of the turn before, as it came and as it is sent back.
        self._reply: Reply | None = None
        self._replayed: Message | None = None

    def run(self, counters: Counters | None) -> LiveRun:
        """Drive the server to the script's end; ``counters`` are the latest.

        Whatever ends the conversation early is the run's ``fault``, and the turns until then are
        kept: nothing that a server can cause is raised.
        """
        fault = None
        try:
            for turn in range(1, self._script.turns + 1):
                counters = self._take(turn, counters)
        except (Unusable, Unanswerable) as ended:
            fault = f"turn {len(self._turns) + 1}: {_told(ended)}"
        rendered: Rendered = "served" if self._manner.template is None else "candidate"
        client = self._manner.client
        return LiveRun(rendered, client, tuple(self._turns), tuple(self._notes), fault)

    def _take(self, turn: int, counters: Counters | None) -> Counters | None:
        ask = self._script.ask(turn, self._reply.message if self._reply else None)
        self._messages.extend(ask.messages)
        if self._cache.reset and turn > 1:
            self._server.reset()
        body = self._body(turn) | dict(ask.extra_body)
        reply = self._server.chat(body)
        after = self._server.counters()
        self._turns.append(
            self._judged(turn, body, reply, self._moved(turn, reply, counters, after))
        )
        self._reply = reply
        self._replayed = _replayed(reply, self._manner.client)
        self._messages.append(self._replayed)
        return after

    def _body(self, turn: int) -> dict[str, Any]:
        script, manner = self._script, self._manner
        body: dict[str, Any] = {
            "model": self._server.model,
            "messages": list(self._messages),
            "max_tokens": manner.max_tokens,
            "temperature": 0,
            "stream": manner.streaming,
        }
        if manner.streaming:
            body["stream_options"] = {"include_usage": True}
        if script.tools:
            body["tools"] = list(script.tools)
        if script.kwargs:
            body["chat_template_kwargs"] = dict(script.kwargs)
        if manner.template is not None:
            body["chat_template"] = manner.template
        if manner.token_ids:
            body["return_token_ids"] = True
        if manner.salt is not None:
            body["cache_salt"] = manner.salt
        body |= manner.extra_body
        if manner.each_body is not None:
            body |= manner.each_body(turn, tuple(self._messages))
        return body

    def _judged(
        self, turn: int, body: Mapping[str, Any], reply: Reply, moved: Movement | None
    ) -> LiveTurn:
        server, block_size = self._server, self._cache.block_size
        prompt, held = self._ids(body, reply)
        earlier = tuple(self.helds)
        self.helds.append(held)
        cached, local, external = self._found(turn, reply, moved)
        if turn == 1:
            self._look_for_others(prompt, cached)
        judged: dict[str, Any] = {"cached": cached, "local": local, "external": external}
        if earlier and self._reply is not None and self._replayed is not None:
            before, reset = earlier[-1], self._cache.reset
            ideal = ideal_tokens(before.length, prompt.length, block_size)
            kept = (*self._shared, *earlier)
            streams = predicted(kept, prompt, block_size)
            prompts = predicted_of_prompts(kept, prompt, block_size) if reset else None
            # A store has reasons of its own to hold less than it could.
            reached = None if cached is None or reset else cached >= ideal
            preserving, evidence = verdict(before, prompt, self._replayed, server.text, reached)
            judged |= {
                "reuse": reuse_of(before, prompt),
                "ideal": ideal,
                "predicted": streams if prompts is None or self._cache.write_back else prompts,
                "prompt_only": prompts,
                "preserving": preserving,
                "evidence": evidence,
                "lost_to": self._lost_to(self._reply, before, prompt),
                "divergence": divergence_of(before, prompt, server.text),
            }
        return LiveTurn(turn, reply.prompt, reply.completion, finish=reply.finish, **judged)

    def _look_for_others(self, prompt: Prompt, cached: int | None) -> None:
        """Whether the first prompt found just what earlier conversations left."""
        left = predicted(self._before, prompt, self._cache.block_size)
        if cached and prompt.ids is not None and left.exact and cached == left.low:
            self._shared = self._before
            self._notes.append(
                f"turn 1: the {cached} cached tokens are those that the conversation before left "
                "(the server does not heed cache_salt): predictions count them"
            )

    def _ids(self, body: Mapping[str, Any], reply: Reply) -> tuple[Prompt, Held]:
        """The prompt and the stream, as far as the server or our own rendering tell their ids."""
        twin, ids, completion = self._manner.twin, reply.prompt_ids, reply.completion_ids
        if ids is None:
            ids = self._server.tokenize(self._messages, body, reply.prompt)
        if twin is not None:
            kwargs = body.get("chat_template_kwargs") or {}
            asked = Exchange(tuple(self._messages), body.get("tools"), kwargs, reply.prompt)
            if ids is None:
                ids = twin(asked)
            if ids is not None and completion is None:
                answered = replace(asked, length=reply.completion, answer=reply.message)
                completion = twin(answered)
        known = [] if ids is None else ids + (completion or [])
        held = Held(known, reply.prompt, reply.prompt + reply.completion)
        return Prompt(ids, reply.prompt), held

    def _lost_to(self, reply: Reply, before: Held, prompt: Prompt) -> Owner | None:
        """Whose doing it is, and not the template's, if this prompt does not continue that one."""
        if self._manner.client != "faithful" and any(reply.message.get(k) for k in _REASONING):
            return "client"
        if reply.finish == "length":
            return "length"
        text = self._server.text
        return "parser" if lost_to_the_parser(before, prompt, reply.message, text) else None

    def _moved(
        self, turn: int, reply: Reply, before: Counters | None, after: Counters | None
    ) -> Movement | None:
        """How far the request moved the counters; None where they are not to be trusted."""
        moved = None if before is None or after is None else movement(before, after)
        if moved is None:
            return None
        found = moved.local + (moved.external or 0)
        # vLLM counts whole prompts; SGLang those, or what was left of them to compute.
        if reply.prompt in (moved.queried, moved.queried + found) and found <= reply.prompt:
            return moved
        if moved.queried == 0:
            why = "the counters did not move"
        elif moved.queried > reply.prompt:
            why = "other requests moved the counters, too"
        else:
            why = f"the counters moved by {moved.queried} for a prompt of {reply.prompt} tokens"
        self._notes.append(f"turn {turn}: {why}: they are not used")
        return None

    def _found(
        self, turn: int, reply: Reply, moved: Movement | None
    ) -> tuple[int | None, int | None, int | None]:
        """What the server found in all, in its own cache and in a store."""
        if moved is None:
            return reply.cached, reply.local, reply.external
        found = moved.local + (moved.external or 0)
        if reply.cached is not None and reply.cached != found:
            self._notes.append(
                f"turn {turn}: the answer says that {reply.cached} tokens were cached, the "
                f"counters {found}"
            )
        cached = found if reply.cached is None else reply.cached
        if reply.local is not None:
            return cached, reply.local, reply.external
        return cached, moved.local, moved.external


def _replayed(reply: Reply, client: Client) -> Message:
    """The assistant message that the client sends back."""
    if client == "faithful":
        return reply.message
    return {key: value for key, value in reply.message.items() if key not in _REASONING}


def _told(ended: Unusable | Unanswerable) -> str:
    if isinstance(ended, Unanswerable):
        return str(ended)
    return ended.message + (f" ({ended.hint})" if ended.hint else "")
