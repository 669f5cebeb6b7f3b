"""A conversation that the user gives: what is accepted, and where a refusal points."""

from __future__ import annotations

import json
from typing import Any

import pytest

from templatefix.api import read_conversation
from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.given import Malformed, scenario_of
from templatefix.errors import TargetError

_USER = {"role": "user", "content": "u"}
_CALL = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def _given(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def test_a_turn_ends_at_each_assistant_message() -> None:
    scenario = scenario_of(
        _given(
            {"role": "system", "content": "s"},
            _USER,
            {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "x", "content": "t"},
            {"role": "assistant", "content": "b"},
            _USER,
        )
    )
    assert [len(turn.new_messages) for turn in scenario.turns] == [2, 1, 1]
    assert scenario.turns[0].answer == Answer("r", "a", (ToolCall("f", '{"a": 1}'),))
    assert scenario.turns[2].answer is None
    assert scenario.core


def test_what_was_generated_is_known_and_not_replayed() -> None:
    answer = {
        "role": "assistant",
        "content": "a",
        "completion": "a<|im_end|>",
        "completion_token_ids": [5, 0],
    }
    (turn,) = scenario_of(_given(_USER, answer)).turns
    assert turn.completion == "a<|im_end|>"
    assert turn.completion_ids == (5, 0)
    assert turn.replayed == {"role": "assistant", "content": "a"}


def test_arguments_may_be_an_object() -> None:
    call = {"function": {"name": "f", "arguments": {"ö": 1}}}
    (turn,) = scenario_of(_given(_USER, {"role": "assistant", "tool_calls": [call]})).turns
    assert turn.answer == Answer(None, None, (ToolCall("f", '{"ö": 1}'),))


@pytest.mark.parametrize(
    ("conversation", "place"),
    [
        ([], "not an object"),
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": {}}, "messages"),
        (_given(_USER, tools={}), "tools"),
        (_given(_USER, tools=[1]), "tools"),
        (_given(_USER, chat_template_kwargs=[]), "chat_template_kwargs"),
        (_given(_USER, 3), r"messages\[1\]"),
        (_given(_USER, {"content": "x"}), r"messages\[1\]"),
        (_given({"role": "user", "content": 3}), r"messages\[0\]\.content"),
        (_given({"role": "assistant", "reasoning": 3}), r"messages\[0\]\.reasoning is"),
        (_given({"role": "assistant", "reasoning_content": []}), r"reasoning_content is"),
        (_given({"role": "assistant", "tool_calls": {}}), r"messages\[0\]\.tool_calls"),
        (_given({"role": "assistant", "tool_calls": ["f"]}), r"tool_calls\[0\]"),
        (_given({"role": "assistant", "tool_calls": [_CALL, {"function": {}}]}), r"calls\[1\]"),
        (_given(_USER, {"role": "assistant", "completion": 3}), r"messages\[1\]\.completion is"),
        (_given({"role": "assistant", "completion_token_ids": "1"}), "completion_token_ids"),
        (_given({"role": "assistant", "completion_token_ids": [-1]}), "completion_token_ids"),
        (_given({"role": "assistant", "completion_token_ids": [True]}), "completion_token_ids"),
        (_given({"role": "assistant", "completion_token_ids": [1.0]}), "completion_token_ids"),
        (_given({"role": "user", "content": [3]}), r"messages\[0\]\.content\[0\]"),
        (_given({"role": "assistant", "content": ["x", None]}), r"content\[1\]"),
    ],
)
def test_a_refusal_names_the_place(conversation: Any, place: str) -> None:
    with pytest.raises(Malformed, match=place):
        scenario_of(conversation)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"messages": []}', "null", "NaN"])
def test_an_unusable_text_is_the_user_s_error_with_the_name_of_the_file(text: str) -> None:
    with pytest.raises(TargetError) as refused:
        read_conversation(text, "chat.json")
    assert refused.value.target == "chat.json"


def test_a_usable_text_is_what_it_says() -> None:
    conversation = _given(_USER, chat_template_kwargs={"enable_thinking": False})
    assert read_conversation(json.dumps(conversation), "-") == conversation
