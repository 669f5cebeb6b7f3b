"""What a prompt says by itself: double tokens, and messages that it does not print."""

from __future__ import annotations

import json
from collections.abc import Sequence

from templatefix.chat.conversation import Message, answer_of
from templatefix.dialect.layout import leaves
from templatefix.findings.evidence import message_texts


def begins_twice(prompt: str, bos: str | None) -> bool:
    """Whether the prompt begins with the beginning-of-sequence token twice."""
    return bool(bos) and prompt.startswith((bos or "") * 2)


def lost(messages: Sequence[Message], prompt: str) -> tuple[int, str] | None:
    """The first message of which something is not printed: its index, and what it is."""
    squeezed = "".join(prompt.split())

    def shows(text: str) -> bool:
        bare = "".join(text.split())
        return bare in squeezed or "".join(json.dumps(text)[1:-1].split()) in squeezed

    for i, message in enumerate(messages):
        role = message.get("role")
        if not all(shows(text) for text in message_texts(message.get("content"))):
            return i, f"the content of a {role} message"
        if role != "assistant":
            continue
        answer = answer_of(message)
        if not all(shows(call.name) for call in answer.tool_calls):
            return i, "a tool call"
        if not all(shows(text) for text in leaves(answer)):
            return i, "an argument of a tool call"
    return None
