"""What a prompt says by itself: double tokens, and messages that it does not print."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

from templatefix.chat.conversation import Message, answer_of
from templatefix.dialect.layout import leaves
from templatefix.findings.evidence import anchors, gap, in_order, message_texts


def begins_twice(prompt: str, bos: str | None) -> bool:
    """Whether the prompt begins with the beginning-of-sequence token twice."""
    return bool(bos) and prompt.startswith((bos or "") * 2)


_CLOSING = re.compile(r"</[A-Za-z][\w:-]*>|\[/[A-Z_]+\]")


def lost(messages: Sequence[Message], prompt: str) -> tuple[int, str] | None:
    """The first message of which something is not printed: its index, and what it is.

    Tool calls are sought between the messages around them: their names stand in the list of
    tools as well, and their arguments in what users ask and tools answer.
    """
    spans = in_order(messages, anchors(messages, prompt))
    whole = squeezed(prompt)
    for i, message in enumerate(messages):
        role = message.get("role")
        said = message_texts(message.get("content"))
        if role == "assistant":
            # Reasoning inside the content is not lost content.
            said = [_CLOSING.split(text)[-1] for text in said]
        if not all(_shows(whole, text) for text in said):
            return i, f"the content of {'an' if role == 'assistant' else 'a'} {role} message"
        if role != "assistant":
            continue
        answer = answer_of(message)
        if not answer.tool_calls:
            continue
        near = squeezed(prompt[slice(*gap(i, spans, len(prompt)))])
        if not all(_shows(near, call.name) for call in answer.tool_calls):
            return i, "a tool call"
        if not all(_shows(near, text) for text in leaves(answer)):
            return i, "an argument of a tool call"
    return None


def squeezed(text: str) -> str:
    """A text without its whitespace."""
    return "".join(text.split())


def _shows(printed: str, text: str) -> bool:
    """Whether a text is in what was ``printed``, squeezed, as it is or as JSON."""
    as_it_is, as_json = _spellings(text)
    return as_it_is in printed or as_json in printed


@lru_cache(maxsize=64)
def _spellings(text: str) -> tuple[str, str]:
    """Remembered, since every mode is told the same texts."""
    return squeezed(text), squeezed(json.dumps(text)[1:-1])
