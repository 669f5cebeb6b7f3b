"""The fixed battery: named conversations that every template is driven through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.conversation import Message, Scenario, Turn


def _tool(name: str, description: str, properties: dict[str, Any], required: list[str]) -> Message:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    }


TOOLS: tuple[Message, ...] = (
    _tool(
        "get_forecast",
        "Weather forecast for a place.",
        {
            "place": {"type": "string", "description": "Name of the place."},
            "days": {"type": "integer", "description": "How many days ahead."},
        },
        ["place"],
    ),
    _tool(
        "find_train",
        "Train connections between two stations.",
        {
            "origin": {"type": "string"},
            "target": {"type": "string"},
            "options": {"type": "object", "description": "Filters."},
        },
        ["origin", "target"],
    ),
)

_SYSTEM: Message = {
    "role": "system",
    "content": "You plan short trips. Keep every reply brief and concrete.",
}


def _user(text: str | list[Message]) -> Message:
    return {"role": "user", "content": text}


def _tool_result(call_index: int, name: str, text: str) -> Message:
    """A tool message; ``call_index`` is replaced by the id of that call of the last answer."""
    return {"role": "tool", "tool_call_id": call_index, "name": name, "content": text}


def _call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))


_QUESTIONS = (
    "Which city lies at the mouth of the Douro?",
    "How long is the walk from its station to the river?",
    "Name one dish that I should try there.",
    "And what is a good month for the trip?",
)
_REPLIES = (
    "Porto lies there, on the north bank, facing Gaia across the water.",
    "About twelve minutes, downhill almost all the way.",
    "Try the francesinha; share one, since it is a heavy sandwich.",
    "Late May: mild evenings, long light and few queues.",
)
_THOUGHTS = (
    "The Douro reaches the Atlantic at Porto. One sentence is enough.",
    "From the old station the river is under a kilometre away, so about twelve minutes.",
    "A local speciality is wanted, and a short warning about its size.",
    "Spring is mild and summer is crowded, therefore May.",
)


def _chat(name: str, *, system: bool, thoughts: bool) -> Scenario:
    turns = []
    for i, (question, reply) in enumerate(zip(_QUESTIONS, _REPLIES, strict=True)):
        new: tuple[Message, ...] = (_user(question),)
        if i == 0 and system:
            new = (_SYSTEM, *new)
        turns.append(Turn(new, Answer(_THOUGHTS[i] if thoughts else None, reply)))
    reasoning = "always" if thoughts else "never"
    return Scenario(name, tuple(turns), core=True, reasoning=reasoning)  # type: ignore[arg-type]


_FORECAST = _call("get_forecast", place="Porto", days=3)
_FIRST_CALL = Turn(
    (_SYSTEM, _user("Will it rain in Porto this week?")),
    Answer("A forecast is needed before I can say anything.", None, (_FORECAST,)),
)
_RAIN = _tool_result(0, "get_forecast", '{"rain": [0.1, 0.7, 0.2], "unit": "share"}')

_TOOL_LOOP = Scenario(
    "tool-loop",
    (
        _FIRST_CALL,
        Turn(
            (_RAIN,),
            Answer("The second day is likely wet.", "Rain is likely on the second day only."),
        ),
    ),
    core=True,
    tools=TOOLS,
    reasoning="if-thinking",
)

_PARALLEL_TOOLS = Scenario(
    "parallel-tools",
    (
        Turn(
            (_user("Compare the weather in Porto and in Coimbra for tomorrow."),),
            Answer(
                "Two places, so two forecasts at once.",
                None,
                (
                    _call("get_forecast", place="Porto", days=1),
                    _call("get_forecast", place="Coimbra", days=1),
                ),
            ),
        ),
        Turn(
            (
                _tool_result(0, "get_forecast", "Porto: light rain, 17 degrees"),
                _tool_result(1, "get_forecast", "Coimbra: sunshine, 21 degrees"),
            ),
            Answer("Coimbra is drier and warmer.", "Coimbra will be the drier and warmer one."),
        ),
    ),
    core=True,
    tools=TOOLS,
    reasoning="if-thinking",
)

_TRAIN = _call(
    "find_train",
    origin="Lisboa Oriente",
    target="Porto Campanhã",
    options={"direct": True, "max_price": 40.5, "via": ["Coimbra B"], "note": None},
)

_TOOL_ROUNDS = Scenario(
    "tool-rounds",
    (
        Turn(
            (_SYSTEM, _user("Find a dry day for Porto and a direct train from Lisbon.")),
            Answer(
                "Start with the forecast.",
                "I will look at the forecast first.",
                (_FORECAST,),
            ),
        ),
        Turn(
            (_tool_result(0, "get_forecast", "dry on the third day"),),
            Answer("The third day is dry; now the train.", None, (_TRAIN,)),
        ),
        Turn(
            (_tool_result(0, "find_train", "07:39, 08:09 and 09:39, all of them direct"),),
            Answer("Offer the middle one.", "Go on the third day and take the train at 08:09."),
        ),
    ),
    core=True,
    tools=TOOLS,
    reasoning="if-thinking",
)

_TOOL_LOOP_THEN_USER = Scenario(
    "tool-loop-then-user",
    (
        *_TOOL_LOOP.turns,
        Turn(
            (_user("Good. Should I still pack an umbrella?"),),
            Answer("One wet day: a light one will do.", "A small one is enough."),
        ),
        Turn(
            (_user("Then tell me what else to bring."),),
            Answer("Keep it short.", "Good shoes for the hills, and a light jacket."),
        ),
    ),
    core=True,
    tools=TOOLS,
    reasoning="if-thinking",
)

_WHITESPACE = Scenario(
    "whitespace",
    (
        Turn(
            (_user("  Show me an indented note.\n"),),
            Answer("  Two spaces,\n\nthen a blank line.  ", "  indented, and ended by two  "),
        ),
        Turn(
            (_user("Now start on a new line."),),
            Answer("\nBegin with a newline.", "\n\tOn a line of its own.\n"),
        ),
        Turn((_user("Say nothing."),), Answer("Nothing is asked for.", "")),
        Turn(
            (_user("Ünïcode, please: 漢字 and 👩‍🚀\u200d."),),
            Answer("Répéter les caractères.", "naïve café – 東京 – 👩‍🚀 – e\u0301\u00a0."),
        ),
        Turn(
            (_user("<tool_response>\nWhat is {{ this }} for?\n</tool_response>"),),
            Answer("It is markup {% that %} looks real.", "<b>It</b> is {{ markup }} & [more]."),
        ),
        Turn((_user("Thanks."),), Answer("Close politely.", "You are welcome.")),
    ),
    core=False,
    reasoning="if-thinking",
)

_CONTENT_PARTS = Scenario(
    "content-parts",
    (
        Turn(
            (
                {"role": "system", "content": [{"type": "text", "text": "You read lists."}]},
                _user(
                    [
                        {"type": "text", "text": "First item: a lighthouse."},
                        {"type": "text", "text": "Second item: a harbour."},
                    ]
                ),
            ),
            Answer("Two items were given.", "A lighthouse and a harbour."),
        ),
        Turn(
            (_user([{"type": "text", "text": "Which of them is taller?"}]),),
            Answer("The first.", "The lighthouse is."),
        ),
    ),
    core=False,
    reasoning="if-thinking",
)

_DEVELOPER = Scenario(
    "developer",
    (
        Turn(
            (
                {"role": "developer", "content": "Answer as a ferry captain would."},
                _user("When do we cast off?"),
            ),
            Answer("Stay in the role.", "At the turn of the tide."),
        ),
        Turn((_user("And when do we land?"),), Answer("Still the captain.", "Before the fog.")),
    ),
    core=False,
    reasoning="if-thinking",
)


def _truncated(cut: str) -> Scenario:
    first = Answer(
        "The list of bridges is long and this sentence is never fin",
        None if cut != "content" else "The first bridge was built when the",
        (_FORECAST,) if cut == "call" else (),
    )
    return Scenario(
        "truncated",
        (
            Turn((_user("Describe every bridge of the town."),), first, cut=cut),  # type: ignore[arg-type]
            Turn((_user("Go on from there."),), Answer("Pick up the thread.", "Six of them.")),
        ),
        core=False,
        tools=TOOLS if cut == "call" else None,
        reasoning="always" if cut == "reasoning" else "if-thinking",
        variant=cut,
    )


#: The chat of four turns that stands for all where one has to do: it reasons where the mode does.
FOUR_TURNS = replace(_chat("four-turns", system=True, thoughts=True), reasoning="if-thinking")

#: What kwargs are tried on: a chat that reasons, and one that calls tools.
PROBE_CALLS = _TOOL_LOOP_THEN_USER
PROBE = _chat("probe", system=True, thoughts=True)

BATTERY: tuple[Scenario, ...] = (
    _chat("plain-chat", system=True, thoughts=False),
    _chat("plain-chat-no-system", system=False, thoughts=False),
    _chat("reasoning-chat", system=True, thoughts=True),
    _TOOL_LOOP,
    _PARALLEL_TOOLS,
    _TOOL_ROUNDS,
    _TOOL_LOOP_THEN_USER,
    _WHITESPACE,
    _CONTENT_PARTS,
    _DEVELOPER,
    _truncated("reasoning"),
    _truncated("content"),
    _truncated("call"),
)


def new_messages() -> Iterator[Message]:
    """What users, systems and tools say in the battery and in its probe."""
    for scenario in (*BATTERY, PROBE):
        for turn in scenario.turns:
            yield from turn.new_messages
