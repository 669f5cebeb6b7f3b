"""A chat with a live server, turn by turn, against what was predicted of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from templatefix.chat.conversation import Message, numbered
from tests.vllm.chats import Predicted
from tests.vllm.engine import Counters, Engine, Served

_REPLAYED = ("role", "content", "reasoning", "tool_calls")


@dataclass(frozen=True)
class Turn:
    """What the server made of one request, and how far it moved its counters."""

    served: Served
    moved: Counters


def chat(engine: Engine, predicted: Predicted, forgetful: bool = False) -> Iterator[Turn]:
    """Every turn of a predicted chat, with the answers that the server itself returned.

    A ``forgetful`` server's own cache is emptied after each turn: what is found in the next was
    found in a store behind it.
    """
    plan = predicted.run.plan
    messages: list[Message] = []
    call_ids: tuple[str, ...] = ()
    for turn, completion in zip(plan.scenario.turns, predicted.completions, strict=True):
        messages += numbered(turn.new_messages, call_ids)
        body: dict[str, Any] = {
            "messages": messages,
            "chat_template": predicted.template,
            "chat_template_kwargs": dict(plan.kwargs),
        }
        if plan.scenario.tools:
            body["tools"] = list(plan.scenario.tools)
        before = engine.counters()
        served = engine.chat(body, completion)
        yield Turn(served, _difference(before, engine.counters()))
        if forgetful:
            engine.forget()
        answer = {key: served.message[key] for key in _REPLAYED if served.message.get(key)}
        if plan.client == "reasoning-dropping":
            answer.pop("reasoning", None)
        call_ids = tuple(call["id"] for call in answer.get("tool_calls", ()))
        messages.append(answer)


def _difference(before: Counters, after: Counters) -> Counters:
    return replace(
        after,
        local_queries=after.local_queries - before.local_queries,
        local_hits=after.local_hits - before.local_hits,
        external_queries=after.external_queries - before.external_queries,
        external_hits=after.external_hits - before.external_hits,
    )
