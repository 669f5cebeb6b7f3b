"""Conversations as a client holds them: turns of new messages and the answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from templatefix.chat.answer import Answer, ToolCall

Message = Mapping[str, Any]

#: How much of a completion a cut leaves: inside which field generation ran out of tokens.
Cut = Literal["reasoning", "content", "call"]


@dataclass(frozen=True)
class Turn:
    """One request: the messages that are new in it, and the answer to them.

    ``answer`` is None where a conversation ends without one. ``completion`` is the exact text
    that was generated (stop token included) or ``completion_ids`` its token ids, when they are
    known. ``replayed`` is the assistant message as the client sent it later, when it is known.
    ``cut`` says that generation ended by length inside that field. ``kwargs`` are added to the
    run's own for this request.
    """

    new_messages: tuple[Message, ...]
    answer: Answer | None = None
    completion: str | None = None
    completion_ids: tuple[int, ...] | None = None
    replayed: Message | None = None
    cut: Cut | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether what was generated or replayed is known, and not only meant."""
        known = self.completion, self.completion_ids, self.replayed
        return known != (None, None, None)

    def answered(self, answer: Answer) -> Turn:
        """The same request with another answer."""
        return Turn(
            self.new_messages,
            answer,
            self.completion,
            self.completion_ids,
            self.replayed,
            self.cut,
            self.kwargs,
        )


@dataclass(frozen=True)
class Scenario:
    """A named conversation.

    ``reasoning`` says what its answers do in a mode that thinks: ``never`` reason (then such a
    mode cannot run it), ``always`` reason (then a mode that does not think cannot), or reason
    ``if-thinking``. ``variant`` tells apart scenarios of one name.
    """

    name: str
    turns: tuple[Turn, ...]
    core: bool
    tools: tuple[Mapping[str, Any], ...] | None = None
    reasoning: Literal["never", "always", "if-thinking"] = "never"
    variant: str = ""


def assistant_message(answer: Answer, call_ids: tuple[str, ...] = ()) -> dict[str, Any]:
    """The assistant message that a faithful client replays for ``answer``."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.reasoning is not None:
        message["reasoning"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call_ids[i] if i < len(call_ids) else f"call_{i}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for i, call in enumerate(answer.tool_calls)
        ]
    return message


def numbered(new: Sequence[Message], call_ids: Sequence[str]) -> list[Message]:
    """Tool results with the ids of the calls that they answer in place of their numbers."""
    return [
        {**message, "tool_call_id": call_ids[message["tool_call_id"]]}
        if isinstance(message.get("tool_call_id"), int) and message["tool_call_id"] < len(call_ids)
        else message
        for message in new
    ]


def answer_of(message: Message) -> Answer:
    """The answer that an assistant message carries (``reasoning`` beats ``reasoning_content``)."""
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")
    calls = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = _dump(arguments if arguments is not None else {})
        calls.append(ToolCall(str(function.get("name", "")), arguments))
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(
            part if isinstance(part, str) else str(part.get("text", "")) for part in content
        )
    return Answer(reasoning, content, tuple(calls))


def _dump(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
