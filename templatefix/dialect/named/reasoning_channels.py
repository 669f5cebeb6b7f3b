"""Formats in which the content stands in a channel of its own, beside the reasoning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    completion.
    """
    for written in completion.split("<|start|>"):
        header, begun, body = written.partition("<|message|>")
        if not begun:
            continue
        for end in HARMONY_ENDS:
            body = body.partition(end)[0]
        yield HarmonyMessage(*_header(header.removeprefix("assistant")), body)


def _header(header: str) -> tuple[str | None, str | None, str | None]:
    """Channel, recipient and content type; the recipient may stand on either side of the channel."""
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
    return message.recipient not in (None, "", "assistant", "functions.")


def harmony_is_content(message: HarmonyMessage) -> bool:
    return message.channel == "final" or (
        message.channel == "commentary" and message.recipient is None
    )


def split_harmony(completion: str, thinking: bool) -> tuple[str | None, str | None]:
    """openai_gptoss: the analysis messages, joined by a newline, and the other messages as written."""
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


K3_THINK = ("<|open|>think<|sep|>", "<|close|>think<|sep|>")
K3_RESPONSE = ("<|open|>response<|sep|>", "<|close|>response<|sep|>")


def split_kimi_k3(completion: str, thinking: bool) -> tuple[str | None, str | None]:
    """kimi_k3: a missing opening tag was printed by the prompt, unless the response has begun."""
    if not thinking:
        return None, completion or None
    before, opened, after = completion.partition(K3_THINK[0])
    body, closed, rest = (after if opened else before).partition(K3_THINK[1])
    if not opened and not closed and K3_RESPONSE[0] in completion:
        return None, completion
    return body or None, (rest or None) if closed else None


def content_of_kimi_k3(rest: str) -> str | None:
    """The body of the response channel, or what stands there without its markers."""
    before, opened, body = rest.partition(K3_RESPONSE[0])
    text = body.partition(K3_RESPONSE[1])[0] if opened else before.replace(K3_RESPONSE[1], "")
    return text.replace("<|close|>message<|sep|>", "") or None


def split_minimax_m3(completion: str, thinking: bool) -> tuple[str | None, str | None]:
    """minimax_m3: ``thinking`` means that the prompt opened the block (``thinking_mode``).

    Text before an opening tag is content, too.
    """
    opening, closing = "<mm:think>", "</mm:think>"
    if not thinking and completion.startswith(closing):
        return None, completion.removeprefix(closing) or None
    before, opened, after = completion.partition(opening)
    if not opened:
        if not thinking:
            return None, completion
        before, after = "", completion
    reasoning, closed, content = after.partition(closing)
    return reasoning, (before + (content if closed else "")) or None
