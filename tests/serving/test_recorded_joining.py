"""Requests find the conversation that they continue, and only a bounded number is held."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from templatefix.serving.recorded.joining import Held, OpenRequests
from templatefix.serving.recorded.keys import keys_of, setting_of
from templatefix.serving.recorded.shapes import Recorded
from tests.serving.traffic_log import Log, losses
from tests.subjects import APPENDS_ALL

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


class Joined:
    """Requests joined one after another: which continues which."""

    def __init__(self, **limits: int) -> None:
        self.open = OpenRequests("</think>", **limits)
        self.held = 0

    def add(
        self, line: int, messages: list[Message], answer: str | None = None, prompt: str = ""
    ) -> int | None:
        """Hold a request; the line of the one that it continues."""
        sent = tuple(messages)
        keys, setting = keys_of(sent, "</think>"), setting_of(sent, None, {})
        match = self.open.match(keys, setting, sent)
        conversation = match.held.conversation if match else self.open.begin()
        recorded = None if answer is None else Recorded(said(answer))
        ids = array("I")
        held = Held(line, sent, None, {}, keys, setting, recorded, prompt, ids, conversation)
        if match is not None:
            self.open.passed(match.held)
        self.open.add(held)
        self.held = max(self.held, len(self.open))
        return None if match is None else match.held.line


def test_conversations_are_told_apart_however_they_are_interleaved() -> None:
    joined = Joined()
    chats: list[list[Message]] = [[user(f"Question {i}?")] for i in range(5)]
    lines = [[0] * 4 for _ in chats]
    line = 0
    for turn in range(4):
        for i, chat in enumerate(chats):
            line += 1
            answer = f"Answer {turn}."  # the same words in all of them
            expected = lines[i][turn - 1] if turn else None
            assert joined.add(line, chat, answer) == expected
            lines[i][turn] = line
            chat += [said(answer), user("And then?")]
    assert joined.open.conversations == 5


def test_branches_continue_the_request_that_they_share() -> None:
    joined = Joined()
    begin = [user("Which city?")]
    assert joined.add(1, begin, "Porto.") is None
    assert joined.add(2, [*begin, said("Porto."), user("Why?")], "The river.") == 1
    assert joined.add(3, [*begin, said("Porto."), user("Since when?")], "Long ago.") == 1
    assert joined.add(4, [*begin, said("Porto."), user("Why?"), said("The river."), user("!")]) == 2
    assert joined.open.conversations == 1


def test_answers_without_a_response_are_those_that_are_sent_back() -> None:
    joined = Joined()
    assert joined.add(1, [user("Which city?")]) is None
    assert joined.add(2, [user("Which city?"), said("Porto."), user("Why?")]) == 1


@pytest.mark.parametrize(
    ("later", "joins"),
    [
        ([user("Which town?"), said("Porto."), user("Why?"), said("So."), user("!")], 2),
        ([user("Which city?"), said("Gaia."), user("Why?"), said("So."), user("!")], 2),
        ([user("Why?"), said("So."), user("!")], 2),
        ([user("Other?"), said("Else."), user("Else?"), said("So."), user("!")], None),
    ],
    ids=["question-edited", "answer-edited", "shortened", "another-conversation"],
)
def test_an_edited_history_is_known_by_its_last_answer(
    later: list[Message], joins: int | None
) -> None:
    joined = Joined()
    joined.add(1, [user("Which city?")], "Porto.")
    joined.add(2, [user("Which city?"), said("Porto."), user("Why?")], "So.")
    assert joined.add(3, later) == joins


def test_the_same_greeting_under_another_system_message_is_another_conversation() -> None:
    joined = Joined()
    for line, app in ((1, "You sing."), (2, "You count.")):
        system = {"role": "system", "content": app}
        assert joined.add(line, [system, user("Hi")], "Hello!") is None
    one = {"role": "system", "content": "You sing."}
    assert joined.add(3, [one, user("Hi"), said("Hello!"), user("Go on")]) == 1
    changed = {"role": "system", "content": "You sing. It is late."}
    follow_up = [user("Hi"), said("Hello!"), user("Go on"), said("La"), user("More")]
    assert joined.add(4, [changed, *follow_up]) is not None
    assert joined.open.conversations == 2


def _many(lines: int) -> Iterator[tuple[int, list[Message], str]]:
    """Conversations of four requests each, fifty of them at a time."""
    chats: list[list[Message]] = [[] for _ in range(50)]
    for line in range(1, lines + 1):
        slot = line % 50
        if len(chats[slot]) > 6:
            chats[slot] = []
        chats[slot] = [*chats[slot], user(f"Question {line}?")]
        yield line, chats[slot], f"Answer {line}."
        chats[slot] = [*chats[slot], said(f"Answer {line}.")]


def test_twenty_thousand_requests_are_joined_in_bounded_memory() -> None:
    joined = Joined(requests=200)
    continued = sum(joined.add(*each) is not None for each in _many(20_000))
    assert joined.held == 200
    assert joined.open.conversations == 5_000
    assert continued == 15_000
    assert joined.open.closed == 5_000 - len({h.conversation for h in _open(joined)})
    assert len(joined.open._index) <= 3 * 200


def _open(joined: Joined) -> list[Held]:
    return list({**joined.open._passed, **joined.open._ends}.values())


def test_characters_are_bounded_too_and_continued_requests_go_first() -> None:
    joined = Joined(characters=1000)
    joined.add(1, [user("Quiet?")], "Yes.", "p" * 100)
    chat = [user("Long?")]
    for line in range(2, 12):
        joined.add(line, chat, f"Answer {line}.", "p" * 300)
        chat = [*chat, said(f"Answer {line}."), user("More?")]
    assert len(joined.open) == 4
    # The quiet conversation is still there: what others have continued went before it.
    assert joined.add(12, [user("Quiet?"), said("Yes."), user("Sure?")]) == 1
    assert joined.open.closed == 0


def test_a_conversation_that_was_closed_begins_anew() -> None:
    joined = Joined(requests=2)
    joined.add(1, [user("One?")], "1.")
    joined.add(2, [user("Two?")], "2.")
    joined.add(3, [user("Three?")], "3.")
    assert joined.open.closed == 1
    assert joined.add(4, [user("One?"), said("1."), user("More?")]) is None


def test_a_branch_reuses_what_another_branch_has_computed() -> None:
    """The server holds the prompts of all branches, not only the answer that they share."""
    text = APPENDS_ALL.replace("+ message.role", "+ (message.role if loop.last else 'x')")
    log = Log.under(text)
    words = "Porto lies there, on the north bank, facing Gaia across the river. " * 3
    begin = [user("Which city lies at the mouth of the Douro?")]
    first = [*begin, said(words), user("Why?")]
    second = [*begin, said(words), user("Since when does it?")]
    log.add(begin, {"content": words}, completion=words + "<|im_end|>")
    log.add(first)
    log.add(second)
    stream = log.prompt(begin) + log.ids(words + "<|im_end|>")
    alone, ideal = log.hit(stream, log.prompt(second))
    beside, _ = log.hit(log.prompt(first), log.prompt(second))
    assert alone < beside
    traffic = log.replayed()
    hit, most = log.hit(stream, log.prompt(first))
    assert traffic.branches == 1
    assert traffic.reused_tokens == hit + min(ideal, beside)
    assert traffic.ideal_tokens == most + ideal
    assert set(losses(traffic)) == {("template", "TF107")}
