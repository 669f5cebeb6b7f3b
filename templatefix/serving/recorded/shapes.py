"""What a line of a recording says: the request, and the answer where it was recorded.

These shapes are read, and any nesting of them:

- an OpenAI chat request: ``{"messages": [...], "tools": [...], "chat_template_kwargs": {...}}``;
- the same with its response beside it: ``{"messages": [...], "response": {...}}``;
- both wrapped, as proxies write them: ``{"request": {...}, "response": {...}}``, also under
  ``request_body``, ``body`` (OpenAI's batch files), ``proxy_server_request`` and others;
- LiteLLM's logging payload: ``messages`` and ``response``, with tools and kwargs under
  ``model_parameters`` or ``optional_params``.

A request's ``extra_body`` is part of it. A response is a chat completion, a list of the chunks of
a streamed one (or the text of the event stream), an assistant message, or plain text; any of these
parts may itself be JSON in a string. ``prompt_token_ids`` and ``choices[0].token_ids`` are what
vLLM adds for ``return_token_ids``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templatefix.chat.conversation import Message
from templatefix.chat.given import Malformed, check_message
from templatefix.serving.recorded.streamed import chunks_of, joined

#: Under these keys a request, a response, or what belongs to a request may lie.
_AROUND_REQUEST = (
    "request",
    "request_body",
    "requestBody",
    "req",
    "body",
    "json",
    "data",
    "payload",
    "input",
    "proxy_server_request",
    "additional_args",
    "complete_input_dict",
    "kwargs",
)
_AROUND_RESPONSE = (
    "response",
    "response_body",
    "responseBody",
    "resp",
    "body",
    "output",
    "result",
    "completion",
    "response_obj",
    "message",
)
#: Where plain text is an answer; elsewhere it may be anything.
_SAID = frozenset({"response", "output", "completion", "response_body"})
_PARAMETERS = ("extra_body", "model_parameters", "optional_params", "parameters")
_DEEPEST = 4

#: Reasons to finish that leave no stop token behind, as does none at all.
_CUT = frozenset({"length", "abort", "error", "content_filter", "max_tokens", "repetition"})

_LARGEST_ID = 2**31


class Unreadable(Exception):
    """The line is no chat request; the message says why."""


@dataclass(frozen=True)
class Recorded:
    """An answer as it was recorded.

    ``message`` is the assistant message that a faithful client sends back. ``ended`` is whether
    the model ended it itself. ``token_ids`` are the completion's, where the server gave them;
    ``stop`` is the text that stopped it, where that is no token of the model's own.
    """

    message: Message
    ended: bool = True
    token_ids: tuple[int, ...] | None = None
    stop: str | None = None


@dataclass(frozen=True)
class Exchange:
    """One line: a request with what it was answered, if that is known.

    ``why_not`` says why it cannot be replayed although it is a chat request.
    """

    line: int
    messages: tuple[Message, ...]
    tools: tuple[Message, ...] | None = None
    kwargs: Mapping[str, Any] | None = None
    answer: Recorded | None = None
    prompt_ids: tuple[int, ...] | None = None
    why_not: str | None = None


def exchange_of(number: int, line: bytes) -> Exchange:
    """The exchange on a line. Raises :class:`Unreadable`."""
    try:
        entry = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {_brief(error)}") from None
    if not isinstance(entry, Mapping):
        raise Unreadable("not a JSON object")
    try:
        return _exchange(number, entry)
    except Malformed as malformed:
        raise Unreadable(str(malformed)) from None
    except RecursionError:
        raise Unreadable("nested too deeply") from None


def _brief(error: ValueError) -> str:
    """An error without the number of the line, which is always 1."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    return str(error)


def _exchange(number: int, entry: Mapping[str, Any]) -> Exchange:
    request = _request(entry, 0)
    if request is None:
        raise Unreadable("no request with messages")
    messages = _parsed(request["messages"])
    for i, message in enumerate(messages):
        check_message(message, f"messages[{i}]")
    fields = _fields(entry, request)
    tools = _parsed(fields.get("tools"))
    if tools is not None and not (
        isinstance(tools, list) and all(isinstance(tool, Mapping) for tool in tools)
    ):
        raise Unreadable("tools is not a list of objects")
    response = _response(entry, request, 0)
    failed = _failed(entry, answered=response is not None)
    response = None if failed else response
    answer = None if response is None else _answer(response)
    return Exchange(
        number,
        tuple(messages),
        tuple(tools) if tools else None,
        _kwargs(fields),
        answer,
        _ids(_prompt_ids(response, request, entry), "prompt_token_ids"),
        failed or _unusual(fields),
    )


def _parsed(value: Any) -> Any:
    """A value, read as JSON where it is a text that holds some."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _request(value: Any, depth: int) -> Mapping[str, Any] | None:
    """The first object with a list of messages, looked for from the outside in."""
    value = _parsed(value)
    if not isinstance(value, Mapping):
        return None
    messages = _parsed(value.get("messages"))
    if isinstance(messages, list) and messages:
        return value
    if depth < _DEEPEST:
        for key in _AROUND_REQUEST:
            found = _request(value.get(key), depth + 1)
            if found is not None:
                return found
    return None


def _fields(entry: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """What the request says beside its messages; what it says itself counts first."""
    fields: dict[str, Any] = {}
    around = [] if entry is request else [entry]
    for place in (request, *around, _request(entry.get("proxy_server_request"), 1)):
        for source in _with_parameters(place):
            for key, value in source.items():
                if value is not None:
                    fields.setdefault(key, value)
    return fields


def _with_parameters(place: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(place, Mapping):
        return
    yield place
    for key in _PARAMETERS:
        inner = _parsed(place.get(key))
        if isinstance(inner, Mapping):
            yield inner
            further = _parsed(inner.get("extra_body"))
            if isinstance(further, Mapping):
                yield further


def _kwargs(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The chat template kwargs of a request as vLLM 0.32 puts them together."""
    given = _parsed(fields.get("chat_template_kwargs"))
    if given is not None and not isinstance(given, Mapping):
        raise Unreadable("chat_template_kwargs is not an object")
    kwargs = dict(given or {})
    effort = fields.get("reasoning_effort")
    if isinstance(effort, str):
        kwargs.setdefault("enable_thinking", effort != "none")
        kwargs["reasoning_effort"] = effort
    if isinstance(fields.get("documents"), list):
        kwargs["documents"] = fields["documents"]
    return kwargs


def _unusual(fields: Mapping[str, Any]) -> str | None:
    if fields.get("continue_final_message") is True:
        return "the request lets the model continue its last message (continue_final_message)"
    if fields.get("add_generation_prompt") is False:
        return "the request asks for no generation prompt (add_generation_prompt)"
    return None


def _failed(entry: Mapping[str, Any], *, answered: bool) -> str | None:
    """Why the request was never served, where the recording says so."""
    if entry.get("error") and not answered:
        return "the server answered with an error"
    for place in (entry, *(_parsed(entry.get(key)) for key in _AROUND_RESPONSE)):
        if not isinstance(place, Mapping) or "choices" in place:
            continue
        status = place.get("status_code", place.get("status"))
        refused = isinstance(status, int) and status >= 400
        if refused or status == "failure" or (place.get("error") and place is not entry):
            return "the server answered with an error"
        inner = _parsed(place.get("body"))
        if isinstance(inner, Mapping) and inner.get("error") and "choices" not in inner:
            return "the server answered with an error"
    return None


def _response(value: Any, request: Mapping[str, Any], depth: int) -> Any:
    """The response: an object with choices or an assistant's, a list of chunks, or text."""
    value = _parsed(value)
    if isinstance(value, str):
        return (chunks_of(value) or value) if depth else None
    if isinstance(value, list):
        return value if depth and value else None
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("choices"), list) or (depth and value.get("role") == "assistant"):
        return value
    if depth < _DEEPEST and (value is not request or depth == 0):
        for key in ("chunks", *_AROUND_RESPONSE):
            found = _response(value.get(key), request, depth + 1)
            if found is not None and (not isinstance(found, str) or key in _SAID):
                return found
    return None


def _answer(response: Any) -> Recorded | None:
    """The answer in a response; None for one that holds none."""
    if isinstance(response, str):
        return Recorded({"role": "assistant", "content": response})
    if isinstance(response, list):
        response = joined(response)
        if response is None:
            return None
    if response.get("role") == "assistant":
        return Recorded(_message(response), True, _ids(response.get("token_ids"), "token_ids"))
    choices = [choice for choice in response["choices"] if isinstance(choice, Mapping)]
    if not choices:
        return None
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, Mapping):
        return joined_answer(response)
    ids = choice.get("token_ids", response.get("token_ids"))
    stop = choice.get("stop_reason")
    return Recorded(
        _message(message),
        _ended(choice),
        _ids(ids, "token_ids"),
        stop if isinstance(stop, str) else None,
    )


def joined_answer(response: Mapping[str, Any]) -> Recorded | None:
    """The answer of a single chunk, which is a whole stream to itself."""
    whole = joined([response])
    return None if whole is None else _answer(whole)


def _ended(choice: Mapping[str, Any]) -> bool:
    if "finish_reason" not in choice:
        return True
    reason = choice["finish_reason"]
    return reason is not None and reason not in _CUT


def _message(message: Mapping[str, Any]) -> Message:
    """The fields of an answer that a client sends back."""
    kept: dict[str, Any] = {"role": "assistant", "content": message.get("content")}
    for key in ("reasoning", "reasoning_content"):
        if message.get(key) is not None:
            kept["reasoning"] = message[key]
            break
    calls = message.get("tool_calls")
    if calls:
        kept["tool_calls"] = calls
    check_message(kept, "the response's message")
    if calls:
        kept["tool_calls"] = [
            {key: call[key] for key in ("id", "type", "function") if key in call} for call in calls
        ]
    return kept


def _prompt_ids(response: Any, *around: Mapping[str, Any]) -> Any:
    places: Sequence[Any] = response if isinstance(response, list) else [response]
    for place in (*places[:1], *around):
        if isinstance(place, Mapping) and place.get("prompt_token_ids") is not None:
            return place["prompt_token_ids"]
    return None


def _ids(value: Any, name: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        type(each) is int and 0 <= each < _LARGEST_ID for each in value
    ):
        raise Unreadable(f"{name} is not a list of token ids")
    return tuple(value)
