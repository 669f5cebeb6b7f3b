"""A conversation that the user gives: messages with what was really generated, if known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from templatefix.chat.conversation import Scenario, Turn, answer_of

#: Keys of an assistant message that say what was generated, and are not sent to the server.
_GENERATED = ("completion", "completion_token_ids")


class Malformed(Exception):
    """The JSON is not a conversation."""


def scenario_of(conversation: Any) -> Scenario:
    """The turns of ``{"messages": [...], "tools": [...]}``; a turn ends at each answer.

    Raises :class:`Malformed` with the place of the fault.
    """
    if not isinstance(conversation, Mapping):
        raise Malformed('the conversation is not an object such as {"messages": [...]}')
    messages = conversation.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Malformed("messages is not a list of at least one message")
    tools = conversation.get("tools")
    if tools is not None and not (
        isinstance(tools, list) and all(isinstance(tool, Mapping) for tool in tools)
    ):
        raise Malformed("tools is not a list of objects")
    kwargs = conversation.get("chat_template_kwargs")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise Malformed("chat_template_kwargs is not an object")
    turns: list[Turn] = []
    pending: list[Mapping[str, Any]] = []
    for i, message in enumerate(messages):
        check_message(message, f"messages[{i}]")
        if message["role"] != "assistant":
            pending.append(message)
            continue
        turns.append(_turn(tuple(pending), message, f"messages[{i}]"))
        pending = []
    if pending:
        turns.append(Turn(tuple(pending)))
    return Scenario("given", tuple(turns), core=True, tools=tuple(tools) if tools else None)


def check_message(message: Any, where: str) -> None:
    """Raises :class:`Malformed` for what is no message; ``where`` names it."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise Malformed(f"{where} is not an object with a role")
    content = message.get("content")
    if content is not None and not isinstance(content, (str, list)):
        raise Malformed(f"{where}.content is neither text nor a list of parts")
    for j, part in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(part, (str, Mapping)):
            raise Malformed(f"{where}.content[{j}] is neither text nor a part")
    for key in ("reasoning", "reasoning_content"):
        if message.get(key) is not None and not isinstance(message[key], str):
            raise Malformed(f"{where}.{key} is not text")
    calls = message.get("tool_calls")
    if calls is None:
        return
    if not isinstance(calls, list):
        raise Malformed(f"{where}.tool_calls is not a list")
    for j, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise Malformed(f"{where}.tool_calls[{j}] has no function with a name")


def _turn(new: tuple[Mapping[str, Any], ...], message: Mapping[str, Any], where: str) -> Turn:
    completion = message.get("completion")
    if completion is not None and not isinstance(completion, str):
        raise Malformed(f"{where}.completion is not text")
    ids = message.get("completion_token_ids")
    if ids is not None and not (
        isinstance(ids, list) and all(type(i) is int and i >= 0 for i in ids)
    ):
        raise Malformed(f"{where}.completion_token_ids is not a list of token ids")
    replayed = {key: value for key, value in message.items() if key not in _GENERATED}
    return Turn(
        new,
        answer_of(message),
        completion,
        tuple(ids) if ids is not None else None,
        replayed,
    )
