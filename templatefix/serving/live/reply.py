"""A chat completion as a server sends it: at once or as events, and whether it contradicts itself.

The fields are those of OpenAI's API, with what vLLM adds (``return_token_ids``: the ids of the
prompt and of the completion, stop token included) and the places where servers report cached
tokens: ``usage.prompt_tokens_details`` (OpenAI, vLLM, SGLang, llama.cpp), ``usage`` itself, and
SGLang's ``sglext.cached_tokens_details``, which tells its own memory from its stores.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class Contradiction(Exception):
    """The answer is no chat completion, or says two things that cannot both be true."""


@dataclass(frozen=True)
class Reply:
    """One answer. ``message`` is the assistant message as a client gets it, lengths are tokens.

    ``prompt_ids``, ``completion_ids`` and ``cached`` are None where the server does not say;
    ``local`` and ``external`` split ``cached`` where it does.
    """

    message: Mapping[str, Any]
    finish: str | None
    prompt: int
    completion: int
    prompt_ids: list[int] | None = None
    completion_ids: list[int] | None = None
    cached: int | None = None
    local: int | None = None
    external: int | None = None


def reply_of(document: Any) -> Reply:
    """The reply in a whole answer. Raises :class:`Contradiction`."""
    choice = _choice(document)
    if choice is None:
        raise Contradiction("the answer has no choices")
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise Contradiction("the answer has no message")
    return _reply(
        _message(message),
        _finish(choice.get("finish_reason")),
        document,
        _ids(_first(document, choice, "prompt_token_ids"), "prompt_token_ids"),
        _ids(_first(choice, document, "token_ids"), "token_ids"),
    )


def reply_of_events(payloads: Iterable[str], most_tokens: int) -> Reply:
    """The reply that a stream of events adds up to. Raises :class:`Contradiction`.

    ``most_tokens`` is how many were asked for: a stream that goes on long after them is ended.
    """
    assembly = _Assembly(most_tokens)
    for payload in payloads:
        if payload.strip() == "[DONE]":
            assembly.done = True
            break
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError):
            raise Contradiction("an event of the stream is not JSON") from None
        assembly.add(event)
    return assembly.reply()


class _Assembly:
    """What the events so far add up to."""

    def __init__(self, most_tokens: int) -> None:
        # An event carries a token or more, and there are a few that carry none.
        self._most_events = 4 * most_tokens + 64
        self._events = 0
        self.done = False
        self._whole: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._prompt_ids: list[int] | None = None
        self._ids: list[int] | None = None

    def add(self, event: Any) -> None:
        self._events += 1
        if self._events > self._most_events:
            raise Contradiction("the stream goes on after max_tokens")
        if not isinstance(event, Mapping):
            raise Contradiction("an event of the stream is not an object")
        if event.get("error") is not None:
            raise Contradiction(f"the stream ended in an error: {_words(event['error'])}")
        for key in ("usage", "sglext", "metadata"):
            if event.get(key) is not None:
                self._whole[key] = event[key]
        choice = _choice(event)
        if choice is None:
            self._take_prompt_ids(event.get("prompt_token_ids"))
            return
        self._take_prompt_ids(_first(event, choice, "prompt_token_ids"))
        ids = _ids(choice.get("token_ids"), "token_ids")
        if ids is not None:
            self._ids = (self._ids or []) + ids
        if choice.get("finish_reason") is not None:
            self._finish = _finish(choice["finish_reason"])
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            self._add_delta(delta)

    def _take_prompt_ids(self, ids: Any) -> None:
        if self._prompt_ids is None:
            self._prompt_ids = _ids(ids, "prompt_token_ids")

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for key in ("content", "reasoning", "reasoning_content"):
            text = delta.get(key)
            if text is None:
                continue
            if not isinstance(text, str):
                raise Contradiction(f"{key} of an event is not text")
            self._texts.setdefault(key, []).append(text)
        calls = delta.get("tool_calls")
        for i, part in enumerate(calls if isinstance(calls, list) else ()):
            if not isinstance(part, Mapping):
                raise Contradiction("a tool call of an event is not an object")
            index = part.get("index", i)
            if type(index) is not int:
                raise Contradiction("the index of a tool call is not a number")
            call = self._calls.setdefault(index, {"name": "", "arguments": ""})
            function = part.get("function")
            function = function if isinstance(function, Mapping) else {}
            call["id"] = part.get("id") or call.get("id")
            call["name"] = function.get("name") or call["name"]
            call["arguments"] += _text(function.get("arguments"))

    def reply(self) -> Reply:
        if not self.done and self._finish is None:
            raise Contradiction("the stream broke off before the answer was complete")
        texts = {key: "".join(parts) for key, parts in self._texts.items()}
        message: dict[str, Any] = {"role": "assistant", "content": texts.get("content") or None}
        for key in ("reasoning", "reasoning_content"):
            if texts.get(key):
                message[key] = texts[key]
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["arguments"]},
                }
                for _, call in sorted(self._calls.items())
            ]
        return _reply(_message(message), self._finish, self._whole, self._prompt_ids, self._ids)


def _reply(
    message: dict[str, Any],
    finish: str | None,
    document: Mapping[str, Any],
    prompt_ids: list[int] | None,
    completion_ids: list[int] | None,
) -> Reply:
    usage = document.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    prompt = _count(usage.get("prompt_tokens"), "usage.prompt_tokens")
    completion = _count(usage.get("completion_tokens"), "usage.completion_tokens")
    # Ids without usage still say how long both are.
    prompt = len(prompt_ids) if prompt is None and prompt_ids is not None else prompt
    if completion is None and completion_ids is not None:
        completion = len(completion_ids)
    if prompt is None or completion is None:
        raise Contradiction("the answer has no usage: how long the prompt was is not known")
    for ids, length, name, count in (
        (prompt_ids, prompt, "prompt_token_ids", "usage.prompt_tokens"),
        (completion_ids, completion, "token_ids", "usage.completion_tokens"),
    ):
        if ids is not None and len(ids) != length:
            raise Contradiction(f"{name} are {len(ids)} tokens, but {count} is {length}")
    cached, local, external = _cached(document, usage)
    if cached is not None and cached > prompt:
        raise Contradiction(f"{cached} tokens of a prompt of {prompt} are said to be cached")
    return Reply(
        message, finish, prompt, completion, prompt_ids, completion_ids, cached, local, external
    )


def _cached(
    document: Mapping[str, Any], usage: Mapping[str, Any]
) -> tuple[int | None, int | None, int | None]:
    found: list[int] = []
    for place, key in (
        (usage.get("prompt_tokens_details"), "cached_tokens"),
        (usage.get("input_tokens_details"), "cached_tokens"),
        (usage, "cached_tokens"),
        (usage, "prompt_cache_hit_tokens"),
    ):
        if isinstance(place, Mapping):
            count = _count(place.get(key), key)
            if count is not None:
                found.append(count)
    extension = document.get("sglext")
    tiers = extension.get("cached_tokens_details") if isinstance(extension, Mapping) else None
    if not isinstance(tiers, Mapping):
        return (found[0] if found else None), None, None
    local = _count(tiers.get("device"), "cached_tokens_details.device") or 0
    external = sum(
        _count(tiers.get(tier), f"cached_tokens_details.{tier}") or 0
        for tier in ("host", "storage")
    )
    if found and found[0] != local + external:
        raise Contradiction(
            f"cached_tokens is {found[0]}, but its details add up to {local + external}"
        )
    return local + external, local, external


def _choice(document: Any) -> Mapping[str, Any] | None:
    if not isinstance(document, Mapping):
        raise Contradiction("the answer is not a JSON object")
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    if not isinstance(choices[0], Mapping):
        raise Contradiction("the first choice of the answer is not an object")
    return choices[0]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as a faithful client keeps it: its text, its reasoning and its calls."""
    kept: dict[str, Any] = {"role": "assistant", "content": message.get("content")}
    if not isinstance(kept["content"], str | None):
        raise Contradiction("the content of the answer is not text")
    for key in ("reasoning", "reasoning_content"):
        text = message.get(key)
        if isinstance(text, str):
            kept[key] = text
            break  # some servers send it under both names
    calls = message.get("tool_calls")
    if calls:
        if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
            raise Contradiction("the tool calls of the answer are not calls of functions")
        kept["tool_calls"] = [
            {key: call[key] for key in ("id", "type", "function") if key in call} for call in calls
        ]
    return kept


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, Mapping) else None
    return (
        isinstance(function, Mapping)
        and isinstance(function.get("name"), str)
        and isinstance(call.get("id"), str)
    )


def _first(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> Any:
    return one.get(key) if one.get(key) is not None else other.get(key)


def _ids(ids: Any, name: str) -> list[int] | None:
    if ids is None:
        return None
    if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
        raise Contradiction(f"{name} is not a list of token ids")
    return ids


def _count(number: Any, name: str) -> int | None:
    if number is None:
        return None
    if type(number) is not int or number < 0:
        raise Contradiction(f"{name} is {json.dumps(number)[:40]}, not a number of tokens")
    return number


def _finish(reason: Any) -> str | None:
    return reason if isinstance(reason, str) else None


def _text(text: Any) -> str:
    return text if isinstance(text, str) else ""


def _words(error: Any) -> str:
    if isinstance(error, Mapping):
        error = error.get("message", "")
    return " ".join(str(error).split())[:400]
