"""Shapes of conversations that small scenarios miss: a patch is chosen by them, not only tested."""

from __future__ import annotations

import json
from typing import Any

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import TOOLS
from templatefix.chat.conversation import Message, Scenario, Turn


def _user(text: str) -> tuple[Message, ...]:
    return ({"role": "user", "content": text},)


def _results(*texts: str) -> tuple[Message, ...]:
    return tuple(
        {"role": "tool", "tool_call_id": i, "name": "get_forecast", "content": text}
        for i, text in enumerate(texts)
    )


def _call(**arguments: Any) -> ToolCall:
    return ToolCall("get_forecast", json.dumps(arguments, ensure_ascii=False))


def _long() -> Scenario:
    turns = tuple(
        Turn(
            _user(f"Question number {i}: what comes next on the route?"),
            Answer(f"Stop {i} was named before, so the next one is due.", f"Stop number {i + 1}."),
        )
        for i in range(8)
    )
    return Scenario("long-chat", turns, core=True, reasoning="if-thinking")


_MIXED_TOOLS = Scenario(
    "mixed-tools",
    (
        Turn(
            (
                {"role": "system", "content": "You check the weather before you answer."},
                *_user("Rain in Faro, Lagos and Tavira?"),
            ),
            Answer(
                "Two of them first.", "Two at a time.", (_call(place="Faro"), _call(place="Lagos"))
            ),
        ),
        Turn(
            _results("Faro: none", "Lagos: some"),
            Answer("One is left.", None, (_call(place="Tavira", days=2),)),
        ),
        Turn(_results("Tavira: a little"), Answer("Sum it up.", "Only Faro stays dry.")),
        Turn(
            _user("Then check Olhão as well."), Answer("One more.", None, (_call(place="Olhão"),))
        ),
        Turn(_results("Olhão: none"), Answer("Dry, too.", "Olhão stays dry, too.")),
        Turn(_user("Thank you."), Answer("Be polite.", "With pleasure.")),
        Turn(_user("One last thing: is it windy?"), Answer("Not known.", "I did not check.")),
    ),
    core=True,
    tools=TOOLS,
    reasoning="if-thinking",
)

_SPACED = Scenario(
    "spaced-chat",
    (
        Turn(_user("An indented line, please."), Answer("Indent it.", "  an indented line")),
        Turn(_user("And one that ends in spaces."), Answer("End it so.", "it ends here  ")),
        Turn(_user("Now two paragraphs."), Answer("Two.\n\nParts.", "First.\n\nSecond.\n")),
        Turn(_user("A line below."), Answer("\nA blank line first.", "\nOn the second line.")),
        Turn(_user("Good."), Answer("Close.", "Good, then.")),
    ),
    core=True,
    reasoning="if-thinking",
)

_TALKS_AND_CALLS = Scenario(
    "talks-and-calls",
    (
        Turn(
            _user("Is it dry in Sintra?"),
            Answer("Look.", "Let me look.", (_call(place="Sintra", days=1),)),
        ),
        Turn(
            _results("no"),
            Answer("\nTry another day.", "Not tomorrow; the day after?", (_call(place="Sintra"),)),
        ),
        Turn(_results("yes"), Answer("Found.", "The day after tomorrow is dry.")),
        Turn(_user("Great."), Answer("Nice.", "Enjoy the trip.")),
    ),
    core=True,
    tools=TOOLS,
    reasoning="if-thinking",
)

_INTERRUPTED = Scenario(
    "interrupted-tools",
    (
        Turn(
            (
                {"role": "system", "content": "You check the weather before you answer."},
                *_user("Is it foggy in Nazaré?"),
            ),
            Answer("Look.", None, (_call(place="Nazaré"),)),
        ),
        Turn(
            (*_results("fog until noon"), *_user("Wait: I meant Peniche.")),
            Answer("The other place.", "Peniche, then.", (_call(place="Peniche", days=1),)),
        ),
        Turn(
            (*_results("clear"), *_user("And tell me when the sun sets.")),
            Answer("Only the first is known.", "It is clear; the sunset I do not know."),
        ),
        Turn(_user("Fine."), Answer("Close.", "Have a good walk.")),
    ),
    core=True,
    tools=TOOLS,
    reasoning="if-thinking",
)

#: Shapes whose answers have outer whitespace, which a client of a stripping server never gets.
ODDLY_SPACED = frozenset({_SPACED.name, _TALKS_AND_CALLS.name})

SHAPES: tuple[Scenario, ...] = (
    _long(),
    _MIXED_TOOLS,
    _TALKS_AND_CALLS,
    _INTERRUPTED,
    _SPACED,
)
