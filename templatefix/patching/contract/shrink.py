"""Makes a generated conversation smaller while it still shows what it was found for.

Hypothesis could do this, but it draws every conversation anew, which takes longer than to judge
it; and it knows nothing of turns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, Scenario, Turn

#: No more smaller conversations than this are tried.
TRIES = 200

#: The word in the middle of each text of a generated conversation.
_MARK = re.compile(r"[aqrst]\d+")


def shrink(scenario: Scenario, shows: Callable[[Scenario], bool]) -> Scenario:
    """The smallest conversation met on the way down; each step keeps what ``shows`` asks."""
    tries = TRIES
    found = True
    while found:
        found = False
        for smaller in _smaller(scenario):
            if tries <= 0:
                return scenario
            tries -= 1
            if shows(smaller):
                scenario, found = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Conversations that are a step smaller, the big steps first."""
    turns = scenario.turns
    for k in range(1, len(turns) - 1):
        yield replace(scenario, turns=(*turns[:k], Turn(turns[k].new_messages)))
    for k in range(len(turns) - 1, 0, -1):
        if _asks(turns[k]):
            yield replace(scenario, turns=turns[k:])
    for k, turn in enumerate(turns):
        if _asks(turn) and k + 1 < len(turns) and _asks(turns[k + 1]):
            yield replace(scenario, turns=turns[:k] + turns[k + 1 :])
        for new, after in _smaller_turns(turn, turns[k + 1] if k + 1 < len(turns) else None):
            rest = () if after is None else (after, *turns[k + 2 :])
            yield replace(scenario, turns=(*turns[:k], new, *rest))


def _smaller_turns(turn: Turn, after: Turn | None) -> Iterator[tuple[Turn, Turn | None]]:
    """A turn made smaller, and the turn after it, which answers its calls."""
    answer = turn.answer
    if answer is not None and answer.tool_calls and after is not None:
        mark = _MARK.search(str(after.new_messages[0].get("content")))
        number = mark[0][1:] if mark else ""
        question: Message = {"role": "user", "content": "q" + number}
        silent = Answer(answer.reasoning, answer.content or "a" + number)
        yield replace(turn, answer=silent), replace(after, new_messages=(question,))
        if len(answer.tool_calls) > 1:
            single = answer._replace(tool_calls=answer.tool_calls[:1])
            yield replace(turn, answer=single), replace(after, new_messages=after.new_messages[:1])
        bare = tuple(call._replace(arguments="{}") for call in answer.tool_calls)
        if bare != answer.tool_calls:
            yield replace(turn, answer=answer._replace(tool_calls=bare)), after
    if len(turn.new_messages) > 1 and turn.new_messages[0].get("role") == "system":
        yield replace(turn, new_messages=turn.new_messages[1:]), after
    for i, message in enumerate(turn.new_messages):
        said = message.get("content")  # odd messages have none, or no text
        for text in _shorter(said) if isinstance(said, str) else ():
            new = (*turn.new_messages[:i], {**message, "content": text})
            yield replace(turn, new_messages=(*new, *turn.new_messages[i + 1 :])), after
    if answer is not None:
        if answer.reasoning is not None:
            yield replace(turn, answer=answer._replace(reasoning=None)), after
        for text in _shorter(answer.reasoning or ""):
            yield replace(turn, answer=answer._replace(reasoning=text)), after
        for text in _shorter(answer.content or ""):
            yield replace(turn, answer=answer._replace(content=text)), after


def _asks(turn: Turn) -> bool:
    """Whether a turn answers no calls."""
    return all(message.get("role") != "tool" for message in turn.new_messages)


def _shorter(text: str) -> Iterator[str]:
    """Shorter texts with the word that tells this text from all others of the conversation.

    Without it, what one message says would be found in another, and a break take on the wrong
    name.
    """
    mark = _MARK.search(text)
    if mark is None:
        return
    before, after = text[: mark.start()], text[mark.end() :]
    if before and after:
        yield mark[0]
    for length in (len(before), len(before) // 2, 1):
        if 0 < length <= len(before):
            yield before[length:] + mark[0] + after
            yield before[:-length] + mark[0] + after
    for length in (len(after), len(after) // 2, 1):
        if 0 < length <= len(after):
            yield before + mark[0] + after[length:]
            yield before + mark[0] + after[:-length]
