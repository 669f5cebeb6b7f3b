"""The server's half of a chat: it prepares messages and renders the prompt."""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import is_
from typing import Any, TypeVar

from templatefix.chat.answer import Answer
from templatefix.chat.battery import TOOLS, new_messages
from templatefix.chat.conversation import Message
from templatefix.chat.present import ContentFormat, as_requested, present_one, present_tool
from templatefix.errors import again
from templatefix.render import PINNED_CLOCK, Crashed, Refused, Renderer, RenderRequest
from templatefix.tokens import Encoder

Kwargs = Mapping[str, Any]
Tools = Sequence[Message] | None

#: Messages and tools as :func:`_spell` writes them, kwargs so, and whether a generation prompt is
#: wanted.
Key = tuple[tuple[bytes, ...], tuple[bytes, ...], bytes, bool]

Sent = TypeVar("Sent")
Made = TypeVar("Made")

#: Values that leave a kwarg as it is without it (vLLM 0.32: ``renderers/params.py``).
_UNSET = (None, "auto")
#: Parameters of transformers' ``apply_chat_template`` that it does not hand on to the template, and
#: ``tools``, which take the place of the request's own.
_NOT_HANDED_ON = frozenset(
    "chat_template tokenize padding truncation max_length return_tensors return_dict "
    "return_assistant_tokens_mask continue_final_message add_generation_prompt "
    "tokenizer_kwargs processor_kwargs tools".split()
)


class Server:
    """Renders prompts as vLLM would, each of them once.

    :meth:`prompt` raises ``Unpresentable``, ``Refused`` or ``Crashed``.
    """

    def __init__(
        self, renderer: Renderer, content_format: ContentFormat, knows_developer: bool
    ) -> None:
        self.renderer = renderer
        self.content_format: ContentFormat = content_format
        self.knows_developer = knows_developer
        self._prompts: dict[tuple[Key, datetime], str | Refused | Crashed] = {}
        # Conversations share their messages and tools: each is looked at once, and kept with what
        # came of it, so that its identity stays its own.
        self._spelled = dict(_spelled_battery())
        self._presented = dict(_presented_battery(content_format))
        self._handed: dict[int, tuple[Kwargs, Mapping[str, Any]]] = {}
        self._spelled_tools: dict[int, tuple[object, tuple[bytes, ...]]] = {}
        self._presented_tools: dict[int, tuple[object, list[dict[str, Any]]]] = {}
        # A request is looked for by its key before it is sent.
        self._asked: tuple[object, ...] = (None, None, None, None)
        self._key: Key = (), (), b"", False

    def like(self, renderer: Renderer) -> Server:
        """Another template's server, which prepares messages alike and knows these already."""
        server = Server(renderer, self.content_format, self.knows_developer)
        server._spelled, server._presented = self._spelled, self._presented
        return server

    @property
    def renders(self) -> int:
        """How many different prompts were rendered."""
        return len(self._prompts)

    @property
    def name(self) -> str:
        """Who renders: what reports print."""
        return self.renderer.name

    @property
    def ours(self) -> Server:
        """The server that renders with the template at hand, at whatever time it is asked to."""
        return self

    def forget(self) -> None:
        """Let go of all prompts and messages: those of traffic without end would pile up."""
        self._prompts.clear()
        self._spelled.clear()
        self._presented.clear()
        self._handed.clear()
        self._spelled_tools.clear()
        self._presented_tools.clear()

    def request(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        *,
        generation_prompt: bool = True,
        clock: datetime = PINNED_CLOCK,
    ) -> RenderRequest:
        """What reaches the renderer for a request of a client."""
        seen = self._presented
        presented = [
            known[1] if (known := seen.get(id(each))) else self._present(each) for each in messages
        ]
        presented = as_requested(presented, self.knows_developer)
        # The same list for the same tools: many templates print it as a whole.
        shown = _once(self._presented_tools, tools, self._present_tools) if tools else None
        if "tools" in kwargs and kwargs["tools"] not in _UNSET:
            shown = kwargs["tools"]  # it replaces the request's own, and is not looked into
        handed = _once(self._handed, kwargs, _handed_on)
        return RenderRequest(presented, shown, generation_prompt, handed, clock)

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        *,
        generation_prompt: bool = True,
        clock: datetime = PINNED_CLOCK,
    ) -> str:
        """The text of the prompt for a request."""
        key = self.key(messages, tools, kwargs, generation_prompt), clock
        known = self._prompts.get(key)
        if known is None:
            request = self.request(
                messages, tools, kwargs, generation_prompt=generation_prompt, clock=clock
            )
            try:
                known = self.renderer.render(request)
            except (Refused, Crashed) as fault:
                known = again(fault)
            self._prompts[key] = known
        if isinstance(known, str):
            return known
        raise again(known)

    def prompt_ids(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        encoder: Encoder,
        prompt: str,
    ) -> list[int]:
        """The token ids of the prompt for a request, and ``prompt`` is its text; ``encoder`` is
        the model's tokenizer."""
        return encoder.encode(prompt)

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
        """What parsers of the server's own make of a completion without its stop token.

        None where it has none, so that the named dialects have to stand in for them. ``cut`` is
        whether generation ended by length.
        """
        return None

    def key(
        self,
        messages: Sequence[Message],
        tools: Tools,
        kwargs: Kwargs,
        generation_prompt: bool = True,
    ) -> Key:
        """What tells requests apart."""
        asked = messages, tools, kwargs, generation_prompt
        if all(map(is_, asked, self._asked)):
            return self._key
        key = (
            self._spellings(messages),
            _once(self._spelled_tools, tools, self._spellings) if tools else (),
            self.spelling(kwargs),
            generation_prompt,
        )
        if type(messages) is tuple:  # others may grow
            self._asked, self._key = asked, key
        return key

    def _spellings(self, sent: Sequence[Mapping[str, Any]]) -> tuple[bytes, ...]:
        spelled = self._spelled
        return tuple(
            [known[1] if (known := spelled.get(id(each))) else self.spelling(each) for each in sent]
        )

    def asked(self) -> Iterator[tuple[list[Message], Tools, Kwargs, bool, str | Refused | Crashed]]:
        """Every request so far and what came of it, but for those at another time of day."""
        for ((messages, tools, kwargs, generation_prompt), clock), known in self._prompts.items():
            if clock == PINNED_CLOCK:
                shown = list(map(marshal.loads, tools)) or None
                told = list(map(marshal.loads, messages))
                yield told, shown, marshal.loads(kwargs), generation_prompt, known

    def spelling(self, sent: Mapping[str, Any]) -> bytes:
        """What a message, a tool or kwargs say. Nobody changes them once they have been sent."""
        return _once(self._spelled, sent, _spell)

    def _present(self, message: Message) -> dict[str, Any]:
        """The message as the template receives it; the sandbox keeps templates from changing it."""
        presented = present_one(message, self.content_format)
        self._presented[id(message)] = (message, presented)
        return presented

    def _present_tools(self, tools: Sequence[Message]) -> list[dict[str, Any]]:
        return [_once(self._presented, tool, present_tool) for tool in tools]


def _once(known: dict[int, tuple[Any, Made]], sent: Sent, make: Callable[[Sent], Made]) -> Made:
    """What is made of something sent, made once and kept with it, by its identity."""
    found = known.get(id(sent))
    if found is None:
        found = sent, make(sent)
        if type(sent) is not list:  # a list may grow
            known[id(sent)] = found
    return found[1]


def _handed_on(kwargs: Kwargs) -> Mapping[str, Any]:
    """The kwargs that reach the template."""
    return {
        name: value
        for name, value in kwargs.items()
        if value not in _UNSET and name not in _NOT_HANDED_ON
    }


def _spell(sent: Mapping[str, Any]) -> bytes:
    """JSON values as bytes: alike for what is alike, which takes version 2, without references."""
    try:
        return marshal.dumps(dict(sent), 2)
    except ValueError:  # what is a kind of dictionary, text or number, JSON takes for one
        return marshal.dumps(json.loads(json.dumps(dict(sent))), 2)


@cache
def _spelled_battery() -> Mapping[int, tuple[object, bytes]]:
    """The spellings of all that every template is sent, by identity: they are made once."""
    return {id(each): (each, _spell(each)) for each in (*new_messages(), *TOOLS)}


@cache
def _presented_battery(
    content_format: ContentFormat,
) -> Mapping[int, tuple[object, dict[str, Any]]]:
    """What templates receive of it, by identity; no template can change it in the sandbox."""
    messages = {id(each): (each, present_one(each, content_format)) for each in new_messages()}
    return messages | {id(each): (each, present_tool(each)) for each in TOOLS}
