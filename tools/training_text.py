"""The text that the shipped tokenizer is trained on: made here, or in prose.txt and words.txt.

A tokenizer needs the shapes of chat traffic more than their meaning: prose, questions, tool
definitions and calls in JSON, mark-up, code, tables, numbers, and some text in other scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

_SEED = 20260115
_CITIES = ("Paris London Tokyo Berlin Madrid Oslo Cairo Lima Delhi Boston Rome Vienna").split()
_PEOPLE = ("Anna Ben Clara David Elena Farid Grace Hiro Ines Jonas Karim Lena").split()
_THINGS = (
    "file table report ticket order invoice message calendar account image garden recipe "
    "engine window letter kitchen hotel flight museum station library contract password"
).split()
_VERBS = (
    "open close find write read check send move copy delete update create list search compare "
    "explain translate summarise calculate repair measure plan book cancel"
).split()
_ADJECTIVES = (
    "small large new old short long quick careful empty important simple difficult local public "
    "common different possible available recent correct"
).split()
_FIELDS = (
    "name city country date time unit query path value count limit language price amount status "
    "description title email id start end latitude longitude temperature currency"
).split()
_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_QUESTIONS = (
    "Can you {verb} the {adjective} {thing} for {person}?",
    "What is the weather in {city} today?",
    "How do I {verb} a {thing} in {city}?",
    "Please {verb} every {thing} that is {adjective}, and tell me what you found.",
    "Why is the {thing} so {adjective}, and who should {verb} it?",
)
_THOUGHTS = (
    "The user wants to {verb} a {thing}. I should first {verb} the {adjective} one.",
    "Okay, {person} is asking about {city}. Let me think about which {thing} is meant.",
    "I need to call the function with the {thing} as its argument, then answer briefly.",
    "Hmm, there are {number} of them. The {adjective} {thing} is not the right one, so I will "
    "{verb} the other.",
)
_ANSWERS = (
    "There are {number} {thing}s in {city}. The most {adjective} is the one that {person} used.",
    "Here is what I found: the {thing} is {adjective}, and you can {verb} it at any time.",
    "1. {verb} the {thing}.\n2. {verb} the {adjective} {thing}.\n3. Tell {person}.",
    "It costs {number} euros. However, the {adjective} {thing} in {city} is free.",
    "**Note:** you cannot {verb} the {thing} before {person} has sent it.",
)
_OTHER_SCRIPTS = (
    "你好，世界。今天天气怎么样？ 我想去图书馆。",
    "こんにちは。天気はどうですか。ありがとうございます。",
    "Привет, мир. Какая сегодня погода? Спасибо.",
    "مرحبا بالعالم. كيف حالك اليوم؟",
    "안녕하세요. 오늘 날씨는 어때요?",
    "Γειά σου, κόσμε. 👋 🙂 ✅ 🚀 … – — “quoted” ‘single’ €5 §3 °C ½ ×",
)


def training_text() -> Iterator[str]:
    """Documents of a few lines each, the same on every run."""
    random = Random(_SEED)
    here = Path(__file__)
    yield from here.with_name("prose.txt").read_text("utf-8").split("\n\n")
    yield from _words(here.with_name("words.txt").read_text("utf-8").split())
    yield from _OTHER_SCRIPTS
    for _ in range(110):
        yield _sentence(random, _QUESTIONS)
        yield "\n" + _sentence(random, _THOUGHTS) + " " + _sentence(random, _THOUGHTS) + "\n"
        yield "\n\n" + _sentence(random, _ANSWERS)
    for _ in range(36):
        yield _tool_definition(random)
        yield _tool_call(random)
        yield _tool_result(random)
    for _ in range(24):
        yield _python(random)
        yield _markup(random)
        yield _table(random)


def _words(common: list[str]) -> Iterator[str]:
    """Common words as they stand in a sentence, with the endings that most of them take."""
    yield " " + " ".join(common)
    yield " " + " ".join(common)
    yield " " + " ".join(f"{word}{ending}" for word in common for ending in ("s", "ing", "ed"))


def _sentence(random: Random, forms: tuple[str, ...]) -> str:
    return random.choice(forms).format(
        verb=random.choice(_VERBS),
        thing=random.choice(_THINGS),
        adjective=random.choice(_ADJECTIVES),
        person=random.choice(_PEOPLE),
        city=random.choice(_CITIES),
        number=random.randrange(2, 3000),
    )


def _function_name(random: Random) -> str:
    return f"{random.choice(_VERBS)}_{random.choice(_THINGS)}"


def _tool_definition(random: Random) -> str:
    fields = random.sample(_FIELDS, 3)
    properties = {
        field: {"type": random.choice(_TYPES), "description": f"The {field} of the call."}
        for field in fields
    }
    return json.dumps(
        {
            "type": "function",
            "function": {
                "name": _function_name(random),
                "description": _sentence(random, _QUESTIONS[1:3]),
                "parameters": {"type": "object", "properties": properties, "required": fields[:1]},
            },
        }
    )


def _tool_call(random: Random) -> str:
    arguments = {field: _value(random) for field in random.sample(_FIELDS, 2)}
    return "\n" + json.dumps({"name": _function_name(random), "arguments": arguments}) + "\n"


def _tool_result(random: Random) -> str:
    rows = [{field: _value(random) for field in random.sample(_FIELDS, 3)} for _ in range(2)]
    return json.dumps({"status": "ok", "results": rows}, indent=random.choice((None, 2)))


def _value(random: Random) -> object:
    return random.choice(
        (
            random.choice(_CITIES),
            random.randrange(10_000),
            round(random.random() * 100, 2),
            random.choice((True, False, None)),
            f"2026-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}",
            [random.choice(_THINGS), random.choice(_PEOPLE)],
        )
    )


def _python(random: Random) -> str:
    thing, field, verb = random.choice(_THINGS), random.choice(_FIELDS), random.choice(_VERBS)
    return (
        f"```python\ndef {verb}_{thing}({field}: str, *, limit: int = 10) -> list[str]:\n"
        f'    """{verb.title()} the {thing} and return what was found."""\n'
        f"    found = []\n    for {thing} in self.{thing}s:\n"
        f'        if {thing}.{field} is not None and {thing}["{field}"] == {field}:\n'
        f"            found.append({thing})\n"
        f'    if not found:\n        raise ValueError(f"no {thing} with {{{field}}}")\n'
        f"    return sorted(found)[:limit]\n```"
    )


def _markup(random: Random) -> str:
    thing, field = random.choice(_THINGS), random.choice(_FIELDS)
    return (
        f'<div class="{thing}">\n  <h2>{thing.title()}</h2>\n'
        f"  <p>{_sentence(random, _ANSWERS)}</p>\n"
        f'  <a href="https://example.com/{thing}/{field}?id={random.randrange(999)}">{field}</a>\n'
        f"</div>\n<parameters>\n<parameter={field}>\n{_value(random)}\n</parameter>\n</parameters>"
    )


def _table(random: Random) -> str:
    head = random.sample(_FIELDS, 3)
    rows = [" | ".join(str(_value(random)) for _ in head) for _ in range(3)]
    return "\n".join(
        [
            f"# {random.choice(_THINGS).title()}",
            "",
            f"| {' | '.join(head)} |",
            "| --- | --- | --- |",
            *(f"| {row} |" for row in rows),
            f"- {_sentence(random, _ANSWERS[:2])}",
        ]
    )
