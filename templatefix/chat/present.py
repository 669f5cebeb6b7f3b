"""Messages as vLLM hands them to a template (vLLM 0.32: ``renderers/chat_utils.py``, ``hf.py``).

Keys that vLLM does not know are dropped, reasoning is sent under both of its names, tool-call
arguments become dicts, content takes the shape that was detected for the template. Where a
template prints a call or a tool as JSON, the order of its keys shows: it is the one in which
vLLM's request types list them, whatever the client sent.

This is the preparation, not the schema of the HTTP API: calls without an id, arguments that are
objects and the part types of the Responses API are read here, since recorded conversations have
them, while a chat completion request is refused for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from templatefix.chat.conversation import Message

ContentFormat = Literal["string", "openai"]

#: Which server's preparation of messages is reproduced; printed in every report.
PRESENTATION = "vllm-0.32"

_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
#: Fields of any part type; only what is none of them is left in a list of parts.
_PART_KEYS = frozenset(
    "type text refusal thinking closed name uuid file data input_audio prompt_cache_breakpoint "
    "audio_url image_url video_url audio_embeds image_embeds video_embeds image_pil".split()
)
#: The roles whose content may be null.
_SILENT_ROLES = frozenset({"assistant", "function"})
_BILLING_HEADER = "x-anthropic-billing-header"


class Unpresentable(Exception):
    """vLLM would refuse the message, or it carries media: the scenario cannot be evaluated."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def present(
    messages: Sequence[Message], content_format: ContentFormat, knows_developer: bool
) -> list[dict[str, Any]]:
    """What the template receives for the messages of a request.

    ``knows_developer`` is whether the template's text names the developer role; if not, vLLM
    turns developer messages into system messages and merges all of those at the head.
    Raises :class:`Unpresentable`.
    """
    presented = [present_one(message, content_format) for message in messages]
    return as_requested(presented, knows_developer)


def as_requested(presented: list[dict[str, Any]], knows_developer: bool) -> list[dict[str, Any]]:
    """What the messages of a request are together, each of them presented already."""
    if not presented:
        raise Unpresentable("a request without messages")
    if not knows_developer and "developer" in [m["role"] for m in presented]:
        presented = _merge_system([_as_system(message) for message in presented])
    return presented


def present_tools(tools: Sequence[Message]) -> list[dict[str, Any]]:
    """The tools of a request as vLLM hands them on. Raises :class:`Unpresentable`."""
    return [present_tool(tool) for tool in tools]


def names_developer(template_text: str) -> bool:
    """vLLM's own test for developer-role support: the quoted word in the template."""
    return '"developer"' in template_text or "'developer'" in template_text


def present_one(message: Message, content_format: ContentFormat) -> dict[str, Any]:
    """What the template receives for one message. Raises :class:`Unpresentable`."""
    role = message.get("role")
    if not isinstance(role, str):
        raise Unpresentable("a message without a role")
    if role not in _SILENT_ROLES and message.get("content", "") is None:
        raise Unpresentable(f"a {role} message whose content is null")
    presented: dict[str, Any] = {"role": role}
    presented["content"] = _content(role, message.get("content"), content_format)
    if role == "assistant":
        _add_assistant_fields(presented, message)
    elif role == "tool" and "tool_call_id" in message:
        presented["tool_call_id"] = message["tool_call_id"]
    for key in ("name", "task"):
        if isinstance(message.get(key), str):
            presented[key] = message[key]
    if role == "developer":
        tools = message.get("tools")
        presented["tools"] = [_ordered_tool(t) for t in tools] if isinstance(tools, list) else tools
    return presented


def _content(role: str, content: Any, content_format: ContentFormat) -> Any:
    if type(content) is str and content_format == "string" and role != "system":
        return content
    if content is None:
        parts: list[Any] = []
    elif isinstance(content, str):
        parts = [{"type": "text", "text": content}]
    elif isinstance(content, (list, tuple)):
        parts = list(content)
    else:
        raise Unpresentable(f"content of type {type(content).__name__}")
    texts = [part for part in map(_text_part, parts) if part is not None]
    if role == "system":
        texts = [kept for kept in map(_without_billing_header, texts) if kept is not None]
    structured = any(part["type"] != "text" for part in texts)
    if content_format == "openai" and (role != "tool" or structured):
        return texts
    words = [str(part.get("text", part.get("name"))) for part in texts]
    # vLLM drops empty texts where it joins parts itself, and keeps those of a tool's list.
    return "\n".join(word for word in words if word or content_format == "openai")


def _text_part(part: Any) -> dict[str, Any] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise Unpresentable("a content part that is neither text nor an object")
    kind = part.get("type", "text" if "text" in part else None)
    if kind == "tool_reference":
        return {"type": kind, "name": part.get("name")}
    if kind not in _TEXT_PARTS or part.get("uuid") is not None:
        raise Unpresentable(f"a content part of type {kind!r}")
    text = part.get(_TEXT_PARTS[kind])
    if text is None:
        return None
    extra = {key: value for key, value in part.items() if key not in _PART_KEYS}
    return {"type": "text", "text": str(text), **extra}


def _without_billing_header(part: dict[str, Any]) -> dict[str, Any] | None:
    if not part.get("text", "").startswith(_BILLING_HEADER):
        return part
    rest = part["text"].partition("\n")[2]
    return {**part, "text": rest} if rest else None


def _add_assistant_fields(presented: dict[str, Any], message: Message) -> None:
    calls = message.get("tool_calls")
    if calls:
        presented["tool_calls"] = [_tool_call(call) for call in calls]
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")
    if reasoning is not None:
        presented["reasoning"] = reasoning
        presented["reasoning_content"] = reasoning


def _tool_call(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or call.get("type", "function") != "function":
        raise Unpresentable("a tool call that is not of type function")
    arguments = _arguments(function.get("arguments"))
    function = _ordered({**function, "arguments": arguments}, "arguments", "name")
    return _ordered({**call, "function": function}, "id", "function", "type")


def _arguments(arguments: Any) -> dict[str, Any]:
    """The dict that vLLM makes of a call's arguments; what is no JSON object becomes ``{}``."""
    if isinstance(arguments, str) and arguments:
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return {}
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def _ordered(fields: Mapping[str, Any], *first: str) -> dict[str, Any]:
    """``fields`` with those of ``first`` before the others."""
    return {key: fields[key] for key in (*first, *fields) if key in fields}


def _ordered_tool(tool: Any) -> Any:
    """A tool of a developer message: nothing is dropped or added there."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    function = _ordered(function, "name", "description", "parameters", "strict")
    return _ordered({**tool, "function": function}, "function", "type")


def present_tool(tool: Message) -> dict[str, Any]:
    """A tool as vLLM hands it on: known keys only, in its order.

    A description or parameters that were not sent are None. Raises :class:`Unpresentable`.
    """
    function = tool.get("function")
    if not isinstance(function, Mapping) or tool.get("type", "function") != "function":
        raise Unpresentable("a tool that is not of type function")
    if not isinstance(function.get("name"), str):
        raise Unpresentable("a tool without a name")
    deferred = tool.get("defer_loading")
    known = {key: function.get(key) for key in ("name", "description", "parameters")}
    own = {"strict": function.get("strict"), "defer_loading": function.get("defer_loading")}
    if own["defer_loading"] is None:
        own["defer_loading"] = deferred
    known |= {key: value for key, value in own.items() if value is not None}
    presented = {"type": "function", "function": known}
    return presented if deferred is None else {**presented, "defer_loading": deferred}


def _as_system(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] != "developer":
        return message
    kept = {key: value for key, value in message.items() if key != "tools"}
    return {**kept, "role": "system"}


def _merge_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    system = [i for i, message in enumerate(messages) if message["role"] == "system"]
    if system in ([], [0]):
        return messages
    texts = []
    for i in system:
        content = messages[i]["content"]
        if isinstance(content, list):
            content = "\n".join(part["text"] for part in content)
        if content:
            texts.append(content)
    rest = [message for message in messages if message["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join(texts)}, *rest]
