"""The harmony format of gpt-oss: channels, recipients and three ends of a message.

Reasoning, content and calls are messages in one sequence, so both passes read the whole of it.
What else vLLM recovers from text that is no harmony is not followed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from templatefix.chat.answer import Answer, ToolCall

from .schema import Tools
from .tool import Reading

HARMONY_ENDS = ("<|end|>", "<|return|>", "<|call|>")


@dataclass(frozen=True)
class HarmonyMessage:
    """One message of the harmony format, as the model writes it after ``<|start|>assistant``."""

    channel: str | None
    recipient: str | None
    kind: str | None  # the content type: "json", "<|constrain|>json"
    body: str


def harmony_messages(completion: str) -> Iterator[HarmonyMessage]:
    """The messages of a completion, which begins after ``<|start|>assistant``.

    A last message without an end is a message all the same: the stop token is not part of the
    completion. A last header without a message is content, as it stands.
    """
    pieces = completion.split("<|start|>")
    for position, written in enumerate(pieces):
        header, begun, body = written.partition("<|message|>")
        if not begun:
            raw = written if position == 0 else "<|start|>" + written
            if written and position + 1 == len(pieces):
                yield HarmonyMessage("final", None, None, raw)
            continue
        for end in HARMONY_ENDS:
            body = body.partition(end)[0]
        yield HarmonyMessage(*_header(header.removeprefix("assistant")), body)


def _header(header: str) -> tuple[str | None, str | None, str | None]:
    """Channel, recipient and content type; the recipient may stand before or after the channel."""
    before, marked, after = header.partition("<|channel|>")
    after, constrained, kind = after.partition("<|constrain|>")
    words = before.split() + after.split()
    channel = after.split()[0] if marked and after.split() else None
    recipient: str | None = None
    if channel is not None:
        words.remove(channel)
    for word in list(words):
        if word.startswith("to="):
            recipient = word.removeprefix("to=")
            words.remove(word)
    return channel, recipient, (kind.strip() if constrained else " ".join(words)) or None


def harmony_is_call(message: HarmonyMessage) -> bool:
    """Whether a message calls a function; the model's built-in tools are no functions."""
    recipient = message.recipient or ""
    if recipient in ("", "assistant", "functions.") or recipient.startswith("<|"):
        return False
    return recipient.partition(".")[0] not in ("python", "browser", "container")


def harmony_is_content(message: HarmonyMessage) -> bool:
    return message.channel == "final" or (
        message.channel == "commentary" and message.recipient is None
    )


def split_harmony(completion: str, thinking: bool) -> tuple[str | None, str | None]:
    """openai_gptoss: the analysis messages joined by a newline; the other messages as written."""
    reasoning: list[str] = []
    rest: list[str] = []
    for written in completion.split("<|start|>"):
        messages = list(harmony_messages(written))
        analysis = [m for m in messages if m.channel == "analysis" and not harmony_is_call(m)]
        reasoning.extend(m.body for m in analysis if m.body)
        if messages and not analysis:
            rest.append(written)
    return "\n".join(reasoning) or None, "<|start|>".join(rest) or None


def content_of_harmony(completion: str) -> str | None:
    """The final messages and the preambles, joined by a newline."""
    bodies = [m.body for m in harmony_messages(completion) if harmony_is_content(m) and m.body]
    return "\n".join(bodies) or None


def _arguments(message: HarmonyMessage, streaming: bool) -> str:
    """vLLM dumps JSON arguments again, non-ASCII escaped; a stream passes the raw text on."""
    if streaming or (message.kind is not None and "json" not in message.kind):
        return message.body
    try:
        return json.dumps(json.loads(message.body))
    except ValueError:
        return message.body


def calls_of_harmony(completion: str, *, streaming: bool) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall((m.recipient or "").removeprefix("functions."), _arguments(m, streaming))
        for m in harmony_messages(completion)
        if harmony_is_call(m)
    )


def read_harmony(text: str, tools: Tools, *, streaming: bool, tags_are_text: bool) -> Reading:
    calls = calls_of_harmony(text, streaming=streaming)
    return content_of_harmony(text), calls, bool(calls)


def parse_harmony(completion: str, *, tools: Tools, streaming: bool) -> Answer:
    """All fields in one pass. A stream has no newline between messages of one kind."""
    joint = "" if streaming else "\n"
    messages = list(harmony_messages(completion))
    reasoning = [m.body for m in messages if m.channel == "analysis" and not harmony_is_call(m)]
    content = [m.body for m in messages if harmony_is_content(m)]
    return Answer(
        joint.join(filter(None, reasoning)) or None,
        joint.join(filter(None, content)) or None,
        calls_of_harmony(completion, streaming=streaming) if tools else (),
    )


NEXT = "<|end|><|start|>assistant"


def write_harmony(calls: Sequence[ToolCall], ordinal: int) -> str:
    return "<|call|><|start|>assistant".join(
        f"<|channel|>commentary to=functions.{call.name} <|constrain|>json"
        f"<|message|>{call.arguments}"
        for call in calls
    )


def write_harmony_turn(answer: Answer) -> str:
    """A turn without its stop token; content before calls is a preamble in the commentary."""
    written = []
    if answer.reasoning is not None:
        written.append(f"<|channel|>analysis<|message|>{answer.reasoning}")
    if answer.content is not None or not answer.tool_calls:
        channel = "commentary" if answer.tool_calls else "final"
        written.append(f"<|channel|>{channel}<|message|>{answer.content or ''}")
    if answer.tool_calls:
        written.append(write_harmony(answer.tool_calls, 0))
    return NEXT.join(written)
