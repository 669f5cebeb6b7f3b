"""Formats in which the content stands in a channel of its own, or before the reasoning."""

from __future__ import annotations

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
