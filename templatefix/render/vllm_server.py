"""A running vLLM as the renderer: its own prompts, parsers and tokenizer, over HTTP.

The endpoints are those of vLLM 0.32 (``entrypoints/scale_out``): ``vllm launch render`` has them,
``vllm serve`` with ``--enable-scale-out``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from templatefix.errors import TargetError
from templatefix.render.http_connection import Connection, Reply
from templatefix.render.protocol import Crashed, Refused

Message = Mapping[str, Any]

_RENDER = "/v1/chat/completions/render"
_DERENDER = "/v1/chat/completions/derender"
_NO_RENDERING = (
    "name a server that `vllm launch render` starts, or start it with --enable-scale-out"
)


class VllmServer:
    """A vLLM server at a URL.

    What the server refuses of a conversation is raised as ``Refused`` in the server's words, what
    fails inside of it as ``Crashed``. A server that is away, slow, or answers with something else
    than vLLM does is a ``TargetError``.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 30.0) -> None:
        """Ask for the server's version and its model. ``timeout`` is in seconds, per request."""
        self.url = url.rstrip("/").removesuffix("/v1")
        self._connection = Connection(self.url, api_key, timeout)
        self.requests = 0
        version = self._ask("GET", "/version").get("version")
        if not isinstance(version, str) or not version:
            raise self._odd("/version", "names no version")
        self.version = version
        self.model = self._the_model()

    @property
    def name(self) -> str:
        return f"vLLM {self.version} at {self.url}"

    def close(self) -> None:
        self._connection.close()

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        kwargs: Mapping[str, Any],
        *,
        generation_prompt: bool = True,
    ) -> list[int]:
        """The token ids of the prompt. Raises ``Refused`` or ``Crashed``."""
        body = _chat_request(self.model, messages, tools, kwargs)
        body["add_generation_prompt"] = generation_prompt
        return self._ids(self._ask("POST", _RENDER, body), "token_ids", _RENDER)

    def derender(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        kwargs: Mapping[str, Any],
        prompt_ids: Sequence[int],
        completion_ids: Sequence[int],
        *,
        cut: bool = False,
    ) -> Message:
        """The assistant message that a client gets for a completion, its stop token left out.

        ``cut`` is whether generation ended by length. Raises ``Refused`` or ``Crashed``.
        """
        choice = {
            "index": 0,
            "token_ids": list(completion_ids),
            "finish_reason": "length" if cut else "stop",
        }
        body = {
            "model": self.model,
            "chat_request": _chat_request(self.model, messages, tools, kwargs),
            "prompt_token_ids": list(prompt_ids),
            "generate_response": {
                "request_id": "templatefix",
                "prompt_token_ids": list(prompt_ids),
                "choices": [choice],
            },
        }
        reply = self._ask("POST", _DERENDER, body)
        choices = reply.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        if not isinstance(message, dict) or not _is_answer(message):
            raise self._odd(_DERENDER, "answers without an assistant message")
        return message

    def tokenize(self, text: str) -> list[int]:
        """The ids of a text, without the special tokens that a tokenizer likes to add."""
        body = {"model": self.model, "prompt": text, "add_special_tokens": False}
        return self._ids(self._ask("POST", "/tokenize", body), "tokens", "/tokenize")

    def detokenize(self, token_ids: Sequence[int]) -> str:
        """The text of token ids, special tokens included."""
        body = {"model": self.model, "tokens": list(token_ids)}
        text = self._ask("POST", "/detokenize", body).get("prompt")
        if not isinstance(text, str):
            raise self._odd("/detokenize", "answers without a text")
        return text

    def _the_model(self) -> str:
        """The model that is served; adapters beside it have a parent."""
        listed = self._ask("GET", "/v1/models").get("data")
        names = [
            entry["id"]
            for entry in (listed if isinstance(listed, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("id"), str)
            if not entry.get("parent")
        ]
        if not names:
            raise self._odd("/v1/models", "lists no model")
        return str(names[0])

    def _ids(self, reply: Mapping[str, Any], key: str, path: str) -> list[int]:
        ids = reply.get(key)
        if not isinstance(ids, list) or not all(type(each) is int and each >= 0 for each in ids):
            raise self._odd(path, f"answers without a list of token ids in {key!r}")
        return ids

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.requests += 1
        reply = self._connection.ask(method, path, body)
        parsed = _object(reply)
        if reply.status == 200 and parsed is not None:
            return parsed
        if reply.status == 200:
            raise self._odd(path, "answers with something else than a JSON object")
        said = _said(parsed)
        if method == "POST" and said is not None:
            if reply.status in (400, 422):
                raise Refused(said)
            if reply.status == 500:
                raise Crashed("vLLM", said)
        raise self._refusal(reply.status, path, said)

    def _refusal(self, status: int, path: str, said: str | None) -> TargetError:
        words = f": {said}" if said else ""
        if status in (401, 407):
            return TargetError(
                self.url, f"wants an API key (HTTP {status}){words}", "give it with --api-key"
            )
        if status in (403, 404, 405, 501):
            return TargetError(
                self.url, f"does not offer {path} (HTTP {status}){words}", _NO_RENDERING
            )
        if 300 <= status < 400:
            return TargetError(
                self.url, f"sends {path} elsewhere (HTTP {status})", "give the final URL"
            )
        return TargetError(
            self.url, f"answers {path} with HTTP {status}{words}", "look at the server's log"
        )

    def _odd(self, path: str, what: str) -> TargetError:
        return TargetError(self.url, f"{path} {what}", "is this a vLLM server?")


def _chat_request(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[Message] | None,
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": list(messages)}
    if tools:
        body["tools"] = list(tools)
    if kwargs:
        body["chat_template_kwargs"] = dict(kwargs)
    return body


def _object(reply: Reply) -> dict[str, Any] | None:
    try:
        parsed = json.loads(reply.content)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _said(parsed: Mapping[str, Any] | None) -> str | None:
    """The message of an error as vLLM words it, or FastAPI."""
    if parsed is None:
        return None
    error = parsed.get("error", parsed)
    said = error.get("message") if isinstance(error, dict) else error
    if not isinstance(said, str):
        said = parsed.get("detail")
    return said if isinstance(said, str) and said else None


def _is_answer(message: Mapping[str, Any]) -> bool:
    """Whether a message has the fields of an answer in the types that they may have."""
    texts = (message.get("content"), message.get("reasoning"), message.get("reasoning_content"))
    calls = message.get("tool_calls") or []
    return (
        all(text is None or isinstance(text, str) for text in texts)
        and isinstance(calls, list)
        and all(_is_call(call) for call in calls)
    )


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str)
    )
