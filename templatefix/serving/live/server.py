"""A live server as the verification uses it: chat completions, and what else it may offer.

What a server turns out not to offer is asked for once, noted in ``unseen``, and left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from templatefix.chat.conversation import Message
from templatefix.serving.live.counters import Counters, counters_of
from templatefix.serving.live.reply import Contradiction, Reply, reply_of, reply_of_events
from templatefix.serving.live.wire import Response, Unusable, Wire, words_of

CHAT = "/v1/chat/completions"
#: What servers say that refuse a field which they do not know.
_STRICT = ("cache_salt", "token_ids", "unrecognized", "unexpected", "unknown", "extra ")
_RESET = "/reset_prefix_cache"
# vLLM refuses a reset while transfers to a store are in flight, and says that it may be repeated.
_RESETS, _BETWEEN_RESETS = 20, 0.25


class LiveServer:
    """One model on one server."""

    def __init__(self, wire: Wire, model: str) -> None:
        self.wire = wire
        self.model = model
        self.unseen: dict[str, str] = {}
        self._texts: dict[tuple[int, ...], str | None] = {}

    def chat(self, body: Mapping[str, Any]) -> Reply:
        """The answer to one request. Raises ``Unusable``."""
        answer: Iterator[str] | Response
        send = self.wire.events if body.get("stream") else self.wire.post
        answer = send(CHAT, body)
        try:
            if not isinstance(answer, Response):
                return reply_of_events(answer, _most_tokens(body))
            if answer.status != 200:
                raise self._refusal(answer, body)
            try:
                document = answer.json()
            except (ValueError, RecursionError):
                raise Contradiction("the answer is not JSON") from None
            return reply_of(document)
        except Contradiction as contradiction:
            raise self.wire.fault(f"{CHAT}: {contradiction}") from None

    def _refusal(self, answer: Response, body: Mapping[str, Any]) -> Unusable:
        said, status = words_of(answer), answer.status
        told = f"answered {status}: {said}" if said else f"answered {status}"
        if status in (401, 403):
            return self.wire.fault(f"refuses the key: it {told}", "--api-key names another")
        if 300 <= status < 400:
            return self.wire.fault(f"{told}: it redirects, which is not followed", "check the URL")
        if status == 404:
            hint = f"--model is {self.model!r}; the URL is what stands before /v1"
            return self.wire.fault(told, hint)
        if "chat_template" in body and 400 <= status < 500:
            hint = "vllm serve --trust-request-chat-template lets requests bring one"
            return self.wire.fault(f"refuses the candidate template: it {told}", hint)
        if 400 <= status < 500 and any(word in said.lower() for word in _STRICT):
            hint = "--no-salt and --no-token-ids leave out what not every server knows"
            return self.wire.fault(told, hint)
        if status < 500:
            return self.wire.fault(told)
        return self.wire.fault(told, "the server's log may say why")

    def tokenize(
        self, messages: Sequence[Message], body: Mapping[str, Any], prompt: int
    ) -> list[int] | None:
        """The ids of a request's prompt, from ``/tokenize``; None where it cannot say.

        ``body`` is that of the chat request, ``prompt`` the length that the server reported: ids
        of another length are not those that it computed.
        """
        if "tokenize" in self.unseen:
            return None
        asked: dict[str, Any] = {
            "model": self.model,
            # vLLM 0.32 renames reasoning_content in chat requests, and drops it here.
            "messages": [_renamed(message) for message in messages],
            "add_generation_prompt": True,
        }
        for key in ("tools", "chat_template", "chat_template_kwargs"):
            if key in body:
                asked[key] = body[key]
        document = self._offered("tokenize", self.wire.post, "/tokenize", asked)
        ids = document.get("tokens") if isinstance(document, Mapping) else None
        if not isinstance(ids, list) or not all(type(i) is int for i in ids):
            self._miss("tokenize", "the ids of the prompts: /tokenize does not answer with them")
            return None
        if len(ids) != prompt:
            self.unseen["tokenize-length"] = (
                f"the ids of a prompt: /tokenize renders {len(ids)} tokens, the server computed "
                f"{prompt}"
            )
            return None
        return ids

    def text(self, ids: Sequence[int]) -> str | None:
        """The text of tokens; None where nobody can say."""
        if not ids:
            return ""
        key = tuple(ids)
        if key not in self._texts:
            self._texts[key] = self._detokenized(list(ids))
        return self._texts[key]

    def _detokenized(self, ids: list[int]) -> str | None:
        if "detokenize" in self.unseen:
            return None
        asked = {"model": self.model, "tokens": ids}
        document = self._offered("detokenize", self.wire.post, "/detokenize", asked)
        text = document.get("prompt", document.get("text")) if isinstance(document, dict) else None
        if isinstance(text, str):
            return text
        self._miss("detokenize", "the text of tokens: /detokenize does not answer with it")
        return None

    def counters(self) -> Counters | None:
        """The server's counters now; None where it has none that we know."""
        if "metrics" in self.unseen:
            return None
        try:
            answer = self.wire.get("/metrics")
        except Unusable as fault:
            self._miss("metrics", f"the counters: {fault.message}")
            return None
        if answer.status != 200:
            self._miss("metrics", f"the counters: /metrics answered {answer.status}")
            return None
        counters = counters_of(answer.text)
        if not counters.present:
            self._miss("metrics", "the counters: /metrics counts no tokens of the prefix cache")
            return None if counters.block_size is None else counters
        return counters

    def reset(self) -> None:
        """Empty the server's own prefix cache, not a store's. Raises ``Unusable``."""
        for _ in range(_RESETS):
            answer = self.wire.post(_RESET, None)
            if answer.status != 200:
                told = f"{_RESET} answered {answer.status}: {words_of(answer)}"
                raise self.wire.fault(told, "vLLM offers it with VLLM_SERVER_DEV_MODE=1")
            try:
                document = answer.json()
            except (ValueError, RecursionError):
                return  # earlier vLLM versions answer with nothing
            if not (isinstance(document, dict) and document.get("success") is False):
                return
            time.sleep(_BETWEEN_RESETS)
        raise self.wire.fault(f"{_RESET} does not succeed", "blocks are still in use there")

    def _offered(
        self, what: str, post: Callable[..., Response], path: str, body: Mapping[str, Any]
    ) -> Any:
        """The document that an endpoint answers with; None, and a note, where there is none."""
        try:
            answer = post(path, body)
        except Unusable as fault:
            self._miss(what, f"what {path} would say: {fault.message}")
            return None
        if answer.status != 200:
            self._miss(what, f"what {path} would say: it answered {answer.status}")
            return None
        try:
            return answer.json()
        except (ValueError, RecursionError):
            return None

    def _miss(self, what: str, sentence: str) -> None:
        self.unseen.setdefault(what, self.wire.without_key(sentence))


def _most_tokens(body: Mapping[str, Any]) -> int:
    asked = body.get("max_tokens", body.get("max_completion_tokens"))
    return asked if type(asked) is int and asked > 0 else 2**20


def _renamed(message: Message) -> dict[str, Any]:
    renamed = dict(message)
    reasoning = renamed.pop("reasoning_content", None)
    if reasoning is not None and renamed.get("reasoning") is None:
        renamed["reasoning"] = reasoning
    return renamed
