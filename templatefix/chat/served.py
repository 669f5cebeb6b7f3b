"""The server's half of a chat, played by a running vLLM."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, answer_of
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Kwargs, Server, Tools
from templatefix.render import PINNED_CLOCK, Crashed, Refused, RenderRequest
from templatefix.render.remote import Remote
from templatefix.tokens import Encoder

Fault = Refused | Crashed | Unpresentable

#: How vLLM begins to say that a request does not follow its schema: no template has seen it then.
_SCHEMA = re.compile(r"\d+ validation errors?:")

#: A token that looks like one of markup.
_TOKEN = re.compile(r"<[^<>\s]+>")
#: An answer and a question that nothing but a renderer's own text comes between.
_WORDS = ("Zq7answer7qZ", "Zq7question7qZ")


@dataclass(frozen=True)
class _Served:
    """A prompt of the server; ``ours`` is whether the template at hand renders the same."""

    ids: list[int]
    text: str
    ours: bool


class ServedChat(Server):
    """Prompts and answers of a running vLLM, each asked for once.

    ``ours`` is the server that renders with the template at hand. Where it comes to the same ids,
    the prompt's text is its text, and the tracer can find lines in it; elsewhere the text is what
    the ids spell.
    """

    def __init__(self, remote: Remote, ours: Server, encoder: Encoder) -> None:
        super().__init__(ours.renderer, ours.content_format, ours.knows_developer)
        self.remote = remote
        self._ours = ours
        self._encoder = encoder
        self._served: dict[object, _Served | Fault] = {}
        self._answers: dict[object, Answer | Fault] = {}
        # The server's clock runs; a template at hand that asks for the day must say the same.
        self._today = datetime.now()

    @property
    def renders(self) -> int:
        return len(self._served)

    @property
    def name(self) -> str:
        return self.remote.name

    @property
    def ours(self) -> Server:
        return self._ours

    def request(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        *,
        generation_prompt: bool = True,
        clock: datetime = PINNED_CLOCK,
    ) -> RenderRequest:
        return self._ours.request(
            messages, tools, kwargs, generation_prompt=generation_prompt, clock=self._today
        )

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        *,
        generation_prompt: bool = True,
        clock: datetime = PINNED_CLOCK,
    ) -> str:
        """The text of the server's prompt; its clock cannot be set."""
        try:
            served = self._prompt(messages, tools, kwargs, generation_prompt)
        except (Refused, Crashed, Unpresentable):
            view = "" if generation_prompt else self._view_in_history(messages, tools, kwargs)
            if not view:
                raise
            return view
        if generation_prompt or served.ours:
            return served.text
        return self._without_generation_prompt(served, messages, tools, kwargs)

    def prompt_ids(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        encoder: Encoder,
        prompt: str,
    ) -> list[int]:
        return self._prompt(messages, tools, kwargs, True).ids

    def agrees(
        self, messages: Sequence[Message], tools: Tools, *, generation_prompt: bool = True
    ) -> bool:
        """Whether the template at hand renders as the server does, refusals included."""
        try:
            return self._prompt(messages, tools, {}, generation_prompt).ours
        except (Refused, Crashed, Unpresentable):
            return isinstance(self._by_us(messages, tools, {}, generation_prompt), Exception)

    def answer(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        prompt_ids: Sequence[int],
        completion_ids: Sequence[int],
        *,
        cut: bool,
    ) -> Answer | None:
        """The answer of the server's own parsers; None for no tokens, which it does not take."""
        if not completion_ids:
            return None
        key = (*self.key(messages, tools, kwargs), tuple(completion_ids), cut)
        known = self._answers.get(key)
        if known is None:
            try:
                message = self.remote.derender(
                    messages, tools, kwargs, prompt_ids, completion_ids, cut=cut
                )
                if message is None:
                    return None
                known = answer_of(message)
            except (Refused, Crashed) as fault:
                known = _own_words(fault)
            self._answers[key] = known
        if isinstance(known, Exception):
            raise known
        return known

    def _prompt(
        self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, generation_prompt: bool
    ) -> _Served:
        key = self.key(messages, tools, kwargs, generation_prompt)
        known = self._served.get(key)
        if known is None:
            known = self._served[key] = self._ask(messages, tools, kwargs, generation_prompt)
        if isinstance(known, Exception):
            raise known
        return known

    def _ask(
        self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, generation_prompt: bool
    ) -> _Served | Fault:
        ours = self._by_us(messages, tools, kwargs, generation_prompt)
        try:
            ids = self.remote.render(messages, tools, kwargs, generation_prompt=generation_prompt)
        except (Refused, Crashed) as fault:
            # Our own fault for the same request knows its line, and what kind it is.
            return ours if isinstance(ours, Exception) else _own_words(fault)
        if isinstance(ours, str) and self._encoder.encode(ours) == ids:
            return _Served(ids, ours, True)
        return _Served(ids, self._encoder.decode(ids), False)

    def _by_us(
        self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs, generation_prompt: bool
    ) -> str | Fault:
        try:
            return self._ours.prompt(
                messages, tools, kwargs, generation_prompt=generation_prompt, clock=self._today
            )
        except (Refused, Crashed, Unpresentable) as fault:
            return fault

    def _without_generation_prompt(
        self, bare: _Served, messages: Sequence[Message], tools: Tools, kwargs: Kwargs
    ) -> str:
        """The text without a generation prompt, where the server heeds the request for that.

        Renderers in Python print one all the same, some even behind an answer. It is told from
        what closes a message by what stands between an answer and the question after it.
        """
        last = messages[-1]
        said = last["content"].strip() if isinstance(last.get("content"), str) else ""
        at = bare.text.rfind(said) if said else -1
        if at < 0 or last.get("tool_calls"):
            return bare.text
        if self._prompt(messages, tools, kwargs, True).ids != bare.ids:
            return bare.text
        end = at + len(said)
        rest, between = bare.text[end:], self._between_turns()
        if last.get("role") == "assistant":
            appended = between != "" and not between.startswith(rest)
            return bare.text[:end] if appended else bare.text
        closer = _TOKEN.match(rest)
        kept = closer[0] if closer and between.startswith(closer[0]) else ""
        return bare.text[:end] + kept

    def _view_in_history(self, messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> str:
        """A conversation up to its last answer, where it is only rendered with more behind it.

        "" where that does not show the answer's end either.
        """
        last, (_, question) = messages[-1], _WORDS
        if last.get("role") != "assistant":
            return ""
        follow_up: list[Message] = [
            {"role": "tool", "tool_call_id": call["id"], "content": question}
            for call in last.get("tool_calls") or ()
        ]
        follow_up = follow_up or [{"role": "user", "content": question}]
        try:
            text = self._prompt([*messages, *follow_up], tools, kwargs, True).text
        except (Refused, Crashed, Unpresentable):
            return ""
        closer = _TOKEN.match(self._between_turns())
        asked = text.find(question)
        end = text.rfind(closer[0], 0, asked) if closer and asked >= 0 else -1
        return text[: end + len(closer[0])] if closer and end >= 0 else ""

    def seen_ids(self) -> set[int]:
        """All token ids of the prompts so far, with what stands between turns."""
        self._between_turns()
        prompts = [each for each in self._served.values() if isinstance(each, _Served)]
        return {token_id for each in prompts for token_id in each.ids}

    def _between_turns(self) -> str:
        """What stands between an answer and the next question; "" where that is not to be seen."""
        answer, question = _WORDS
        told = [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": question},
        ]
        try:
            text = self._prompt(told, None, {}, True).text
        except (Refused, Crashed, Unpresentable):
            return ""
        _, shown, rest = text.partition(answer)
        between, followed, _ = rest.partition(question)
        return between if shown and followed else ""


def _own_words(fault: Refused | Crashed) -> Fault:
    """What the server says of a request; that its schema forbids it is no template's refusal."""
    if isinstance(fault, Refused) and _SCHEMA.match(fault.message):
        first = fault.message.splitlines()[0].rstrip(":")
        return Unpresentable(f"the server's schema forbids it: {first}")
    return fault
