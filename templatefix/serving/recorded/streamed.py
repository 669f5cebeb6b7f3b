"""A streamed response, put together as a client does it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def chunks_of(text: str) -> list[Any]:
    """The chunks in the text of an event stream; none where it is no such text."""
    found = []
    for line in text.splitlines():
        kind, colon, payload = line.partition(":")
        if not colon or kind.strip() != "data":
            if line.strip() and kind.strip() not in ("event", "id", "retry", ""):
                return []
            continue
        if payload.strip() != "[DONE]":
            try:
                found.append(json.loads(payload))
            except ValueError:
                return []
    return found


def joined(chunks: Sequence[Any]) -> dict[str, Any] | None:
    """The chat completion that chunks add up to; None where they hold none.

    Of several choices the first is taken. Without a chunk that says why the stream finished, the
    client or the server broke it off, and the finish reason is None.
    """
    fields: dict[str, list[str]] = {"content": [], "reasoning": []}
    calls: dict[int, dict[str, Any]] = {}
    ids: list[Any] | None = None
    closing: dict[str, Any] = {"finish_reason": None}
    begun = False
    for chunk in chunks:
        if not isinstance(chunk, Mapping):
            continue
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, Mapping) or choice.get("index", 0) != 0:
                continue
            if isinstance(choice.get("message"), Mapping):
                return {**chunk, "choices": [choice]}  # a whole response in a list of one
            begun = True
            delta = choice.get("delta")
            _add(delta if isinstance(delta, Mapping) else {}, fields, calls)
            if isinstance(choice.get("token_ids"), list):
                ids = [*(ids or ()), *choice["token_ids"]]
            for key in ("finish_reason", "stop_reason"):
                if choice.get(key) is not None:
                    closing[key] = choice[key]
    if not begun:
        return None
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(fields["content"]) if fields["content"] else None,
    }
    if fields["reasoning"]:
        message["reasoning"] = "".join(fields["reasoning"])
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"choices": [{"message": message, "token_ids": ids, **closing}]}


def _add(
    delta: Mapping[str, Any], fields: dict[str, list[str]], calls: dict[int, dict[str, Any]]
) -> None:
    if isinstance(delta.get("content"), str):
        fields["content"].append(delta["content"])
    for key in ("reasoning", "reasoning_content"):
        if isinstance(delta.get(key), str):
            fields["reasoning"].append(delta[key])
            break
    pieces = delta.get("tool_calls")
    for piece in pieces if isinstance(pieces, list) else ():
        if not isinstance(piece, Mapping):
            continue
        index = piece.get("index")
        index = index if type(index) is int else len(calls)
        call = calls.setdefault(
            index, {"type": "function", "function": {"name": "", "arguments": ""}}
        )
        if isinstance(piece.get("id"), str):
            call["id"] = piece["id"]
        function = piece.get("function")
        for key in ("name", "arguments"):
            if isinstance(function, Mapping) and isinstance(function.get(key), str):
                call["function"][key] += function[key]
