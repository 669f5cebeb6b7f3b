"""A chat request on both sides: our prompt as token ids, and those of the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from jinja2.utils import Namespace

from templatefix.chat.conversation import Message
from templatefix.chat.present import Unpresentable, names_developer
from templatefix.chat.server import Server
from templatefix.render import Crashed, JinjaRenderer, Refused
from templatefix.syntax import content_format, parse
from templatefix.tokens import Encoder
from tests.vllm.render_server import RenderServer, Reply

#: What Qwen3's tokenizer, which the server has, gives to every template.
OWN_TOKENS = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}


@dataclass(frozen=True)
class Asked:
    """A request: messages, tools and the client's chat template kwargs."""

    messages: Sequence[Message]
    tools: Sequence[Message] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Prompt:
    """The ids of a prompt, or why there is none."""

    ids: list[int] | None
    refusal: str = ""


@dataclass(frozen=True)
class Difference:
    asked: Asked
    ours: str
    theirs: str

    def __str__(self) -> str:
        return (
            f"{self.asked.kwargs} {self.asked.messages}\n"
            f"  vLLM: {self.theirs[:1500]!r}\n  ours: {self.ours[:1500]!r}"
        )


class BothSides:
    """One template, rendered by us and by the server."""

    def __init__(self, server: RenderServer, text: str, special_tokens: Mapping[str, str]) -> None:
        self.remote = server
        self.text = text
        self.special_tokens = dict(special_tokens)
        self.encoder: Encoder = server.encoder()
        renderer = JinjaRenderer(text, OWN_TOKENS | self.special_tokens)
        self.local = Server(renderer, content_format(parse(text)), names_developer(text))

    def body(self, asked: Asked) -> dict[str, Any]:
        body: dict[str, Any] = {
            "messages": list(asked.messages),
            "chat_template": self.text,
            "chat_template_kwargs": {**self.special_tokens, **asked.kwargs},
        }
        return body if asked.tools is None else {**body, "tools": list(asked.tools)}

    def ours(self, asked: Asked, clock: datetime) -> Prompt:
        try:
            prompt = self.local.prompt(asked.messages, asked.tools, asked.kwargs, clock=clock)
        except Unpresentable as unpresentable:
            return Prompt(None, unpresentable.what)
        except Refused as refused:
            return Prompt(None, refused.message)
        except Crashed as crashed:
            return Prompt(None, crashed.message)
        return Prompt(self.encoder.encode(prompt))

    def differences(self, requests: Iterable[Asked]) -> Iterator[Difference]:
        """Every request that the two sides answer differently."""
        requests = list(requests)
        begun = datetime.now()
        replies = self.remote.render_all(self.body(asked) for asked in requests)
        for asked, reply in zip(requests, replies, strict=True):
            theirs = prompt_of(reply)
            # The server's clock runs: a day may end between its prompt and ours.
            clocks = (datetime.now(), begun) if "strftime_now" in self.text else (begun,)
            answers = [self.ours(asked, clock) for clock in clocks]
            if not any(_agree(ours, theirs) for ours in answers):
                yield Difference(asked, self._shown(answers[0]), self._shown(theirs))

    def _shown(self, prompt: Prompt) -> str:
        return prompt.refusal if prompt.ids is None else self.remote.text(prompt.ids)


def prompt_of(reply: Reply) -> Prompt:
    if reply.status == 200:
        return Prompt(list(reply.body["token_ids"]))
    assert reply.status == 400, reply.body
    if reply.reason == "No token_ids rendered":
        return Prompt([])
    return Prompt(None, reply.reason)


def _agree(ours: Prompt, theirs: Prompt) -> bool:
    """Equal token for token, or refused by both."""
    return ours.ids == theirs.ids


def as_before_transformers_5_20(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renderers made from here on do what transformers did before 5.20.

    Ours follows transformers 5.24, which drops keys of messages that are None, repeats reasoning
    under the name ``thinking``, and guards ``dict`` and ``namespace``. vLLM 0.32.0 keeps to
    transformers before 5.20, which does none of that.
    """
    ours = "templatefix.render.jinja."
    monkeypatch.setattr(ours + "template_messages", lambda messages: [dict(m) for m in messages])
    monkeypatch.setattr(ours + "_PlainDict", lambda: dict)
    monkeypatch.setattr(ours + "_GuardedNamespace", Namespace)


def depends_on_transformers(text: str) -> bool:
    """Whether a template does what the two versions of transformers differ in."""
    return "thinking" in text or "dict." in text
