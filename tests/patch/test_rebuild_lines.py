"""How a rebuilt branch is laid out: one look at what decides, and no part that is empty."""

from __future__ import annotations

import pytest

from templatefix.patching.ladder.rebuild_keep import Lines
from templatefix.patching.ladder.rebuild_lines import by_calls, either
from templatefix.patching.ladder.rebuild_opener import Opener

LOOP: Lines = [(0, "{%- for call in message.tool_calls %}...{%- endfor %}")]
FLAG: Lines = [(0, "{%- set ns.tool = false %}")]


def asked(test: str, inner: Lines, *rest: tuple[int, str]) -> Lines:
    return [
        (0, f"{{%- if {test} %}}"),
        *((depth + 1, text) for depth, text in inner),
        *rest,
        (0, "{%- endif %}"),
    ]


@pytest.mark.parametrize(
    "test",
    [
        "message.tool_calls",
        "message['tool_calls']",
        "message.get('tool_calls')",
        "'tool_calls' in message and message.tool_calls",
        "message.tool_calls is defined and message.tool_calls is not none",
    ],
)
def test_a_condition_for_calls_is_not_asked_again(test: str) -> None:
    assert by_calls(asked(test, LOOP), "message") == ([], LOOP, [])
    assert by_calls([*FLAG, *asked(test, LOOP)], "message") == (FLAG, LOOP, [])


@pytest.mark.parametrize(
    "test",
    [
        "not message.tool_calls",
        "message.tool_calls and tools",
        "other.tool_calls",
        "message.content",
        "true",
    ],
)
def test_another_condition_stays_where_it_is(test: str) -> None:
    assert by_calls(asked(test, LOOP), "message") is None


def test_what_is_done_for_answers_without_calls_goes_on_their_side() -> None:
    lines = asked("message.tool_calls", LOOP, (0, "{%- else %}"), (1, FLAG[0][1]))
    assert by_calls(lines, "message") == ([], LOOP, FLAG)
    lines = asked("message.tool_calls", LOOP, (0, "{%- elif ns.tool %}"), (1, FLAG[0][1]))
    assert by_calls(lines, "message") == ([], LOOP, asked("ns.tool", FLAG))
    empty = ((0, "{%- elif ns.tool %}"), (0, "{%- else %}"), (1, FLAG[0][1]))
    lines = asked("message.tool_calls", LOOP, *empty)
    assert by_calls(lines, "message") == ([], LOOP, asked("not ns.tool", FLAG))


def test_a_loop_alone_and_nothing_at_all_are_for_answers_with_calls() -> None:
    assert by_calls(LOOP, "message") == ([], LOOP, [])
    assert by_calls(FLAG + LOOP, "message") == (FLAG, LOOP, [])
    assert by_calls([], "message") == ([], [], [])
    assert by_calls(asked("message.tool_calls", LOOP) + FLAG, "message") is None


def test_an_empty_side_is_left_out() -> None:
    assert either("calls", LOOP, []) == asked("calls", LOOP)
    assert either("calls", [], LOOP) == asked("not calls", LOOP)
    assert either("", LOOP, FLAG) == LOOP
    assert either("calls", [], []) == []


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ '<a>' }}", "'<a>'"),
        ("<a>{% if x %}{{ '1' }}{% endif %}", "'<a>' + ('1' if x else '')"),
        (
            "{% if x %}{{ tag }}{% elif y %}{{ tag + '2' }}{% else %}{% endif %}",
            "tag if x else tag + '2' if y else ''",
        ),
        (
            "{% if x %}{% if y %}1{% endif %}{% else %}2{% endif %}",
            "('1' if y else '') if x else '2'",
        ),
    ],
)
def test_a_generation_prompt_of_strings_is_a_value(source: str, value: str) -> None:
    opener = Opener(source, (), False, False, frozenset({"tag"}))
    assert opener.assigned("opener") == f"{{%- set opener = {value} %}}"


@pytest.mark.parametrize(
    "source", ["{{ other }}", "{{ tag | upper }}", "{{ 1 }}", "{% set x = 1 %}{{ 'a' }}"]
)
def test_what_is_no_string_for_certain_is_captured(source: str) -> None:
    opener = Opener(source, ("thinks",), False, True, frozenset({"tag"}))
    assert opener.assigned("opener") == (
        f"{{%- set opener %}}{{%- if thinks %}}{source}{{%- endif %}}{{% endset %}}"
    )
