"""A conversation of a million characters is read like any other, in memory that has a bound."""

from __future__ import annotations

import tracemalloc

from templatefix.chat.conversation import Message
from tests.serving.loopback import PRESERVING
from tests.serving.traffic_log import Log

REQUESTS = 3
CHARACTERS = 1_000_000
#: In bytes. Messages and prompts of all requests are held, as text and as ids; the last one's line
#: is read and parsed beside them.
MOST = 64 * CHARACTERS

_WORDS = "The river runs past the old town and its cellars, and nobody is in a hurry there. "


def _said(role: str, number: int) -> Message:
    length = CHARACTERS // (2 * REQUESTS)
    return {"role": role, "content": f"{number}. " + (_WORDS * (length // 60))[:length]}


def test_a_million_characters_are_priced_in_bounded_memory() -> None:
    log = Log.under(PRESERVING)
    messages: list[Message] = []
    for number in range(REQUESTS):
        messages.append(_said("user", number))
        log.add(messages, answer := _said("assistant", number))
        messages.append(answer)
    assert sum(len(each["content"]) for each in messages) >= CHARACTERS

    tracemalloc.start()
    try:
        traffic = log.replayed()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (traffic.requests, traffic.conversations) == (REQUESTS, 1)
    assert traffic.reused_tokens == traffic.ideal_tokens > CHARACTERS / 10
    assert peak < MOST
