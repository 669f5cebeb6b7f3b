"""Messages reach a template as vLLM hands them over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.chat.present import ContentFormat, Unpresentable, names_developer, present

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)

_FORMATS: tuple[ContentFormat, ...] = ("string", "openai")
_texts = st.text('ab \n"{}é', max_size=8)
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(_texts, inner, max_size=2)
    ),
    max_leaves=5,
)


def _one(message: dict[str, Any], form: ContentFormat = "string") -> dict[str, Any]:
    (presented,) = present([message], form, True)
    return presented


def _call(arguments: Any, **more: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [{**call, **more}]}


def _arguments(arguments: Any) -> Any:
    return _one(_call(arguments))["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_unknown_keys_are_dropped(role: str) -> None:
    message = {"role": role, "content": "c", "prefix": True, "current_date": "x", "tools": [1]}
    assert _one(message) == {"role": role, "content": "c"}


def test_name_and_task_are_kept_only_as_text() -> None:
    assert _one({"role": "user", "content": "", "name": "n", "task": "t"})["name"] == "n"
    assert "name" not in _one({"role": "user", "content": "", "name": 3})


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_sent_under_both_names(key: str) -> None:
    presented = _one({"role": "assistant", "content": "c", key: "r"})
    assert presented["reasoning"] == presented["reasoning_content"] == "r"


def test_reasoning_beats_reasoning_content() -> None:
    both = {"role": "assistant", "content": "c", "reasoning": "a", "reasoning_content": "b"}
    assert _one(both)["reasoning_content"] == "a"
    assert _one({**both, "reasoning": ""})["reasoning_content"] == ""
    assert _one({**both, "reasoning": None})["reasoning"] == "b"


@pytest.mark.parametrize("role", ["system", "user", "tool"])
def test_only_assistants_reason(role: str) -> None:
    presented = _one({"role": role, "content": "c", "reasoning": "r", "tool_calls": [1]})
    assert set(presented) == {"role", "content"}


@quick
@given(st.dictionaries(_texts, _json, max_size=3))
def test_arguments_become_the_dict_that_their_text_spells(arguments: dict[str, Any]) -> None:
    assert _arguments(json.dumps(arguments)) == arguments
    assert _arguments(arguments) == arguments


@pytest.mark.parametrize(
    "arguments", ["{", "", None, "[1]", "3", '"text"', "null", [1], "[" * 100_000, "NaN x"]
)
def test_arguments_that_are_no_object_become_an_empty_dict(arguments: Any) -> None:
    assert _arguments(arguments) == {}


@pytest.mark.parametrize("calls", [[], None])
def test_an_empty_list_of_calls_is_removed(calls: Any) -> None:
    assert "tool_calls" not in _one({"role": "assistant", "content": "c", "tool_calls": calls})


def test_the_rest_of_a_call_stays_as_it_is() -> None:
    presented = _one(_call("{}"))["tool_calls"][0]
    assert presented == {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {}}}


def test_presenting_leaves_the_client_s_message_alone() -> None:
    message = _call('{"a": 1}')
    before = json.dumps(message)
    _one(message)
    assert json.dumps(message) == before


@pytest.mark.parametrize("call", ["f", {"type": "custom"}, {"function": "f"}])
def test_a_call_that_is_no_function_is_refused(call: Any) -> None:
    with pytest.raises(Unpresentable, match="function"):
        _one({"role": "assistant", "content": "", "tool_calls": [call]})


def test_content_that_is_none_is_empty() -> None:
    assert _one({"role": "assistant", "content": None})["content"] == ""
    assert _one({"role": "assistant", "content": None}, "openai")["content"] == []
    assert _one({"role": "user"})["content"] == ""


@quick
@given(st.lists(_texts, min_size=1, max_size=4))
def test_parts_are_joined_by_newlines_or_kept_by_the_format(texts: list[str]) -> None:
    parts = [{"type": "text", "text": text} for text in texts]
    message = {"role": "user", "content": parts}
    assert _one(message)["content"] == "\n".join(text for text in texts if text)
    assert _one(message, "openai")["content"] == parts


def test_a_plain_text_becomes_one_part_in_the_openai_format() -> None:
    presented = _one({"role": "user", "content": "hi"}, "openai")
    assert presented["content"] == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize("form", _FORMATS)
def test_tool_results_are_joined_whatever_the_format(form: ContentFormat) -> None:
    parts = [{"type": "text", "text": "a"}, "b"]
    presented = _one({"role": "tool", "tool_call_id": "c1", "content": parts}, form)
    assert presented == {"role": "tool", "content": "a\nb", "tool_call_id": "c1"}


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "input_text", "text": "x"}, "x"),
        ({"type": "output_text", "text": "x"}, "x"),
        ({"type": "refusal", "refusal": "x"}, "x"),
        ({"type": "thinking", "thinking": "x"}, "x"),
        ({"text": "x"}, "x"),
        ("x", "x"),
    ],
)
def test_every_kind_of_text_part_is_text(part: Any, text: str) -> None:
    presented = _one({"role": "assistant", "content": [part]}, "openai")
    assert presented["content"] == [{"type": "text", "text": text}]


def test_other_fields_of_a_part_stay_with_it_in_the_openai_format() -> None:
    part = {"type": "input_text", "text": "x", "cache_control": {"type": "ephemeral"}}
    presented = _one({"role": "user", "content": [part]}, "openai")
    assert presented["content"] == [
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    ]


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "video_url", "image", "file"])
@pytest.mark.parametrize("form", _FORMATS)
def test_media_parts_are_not_evaluated_and_named(kind: str, form: ContentFormat) -> None:
    with pytest.raises(Unpresentable, match=kind):
        _one({"role": "user", "content": [{"type": kind}]}, form)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "x"},
        {"role": 3},
        {"role": "user", "content": 3},
        {"role": "user", "content": [3]},
    ],
)
def test_what_is_no_message_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(Unpresentable):
        _one(message)


_DEVELOPED: list[dict[str, Any]] = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
    {"role": "developer", "content": "d", "tools": [{"x": 1}]},
    {"role": "user", "content": "v"},
]


def test_a_developer_is_folded_into_the_system_message_where_the_template_knows_none() -> None:
    assert present(_DEVELOPED, "string", False) == [
        {"role": "system", "content": "s\n\nd"},
        {"role": "user", "content": "u"},
        {"role": "user", "content": "v"},
    ]


def test_parts_of_folded_messages_are_joined() -> None:
    first = present(_DEVELOPED, "openai", False)[0]
    assert first == {"role": "system", "content": "s\n\nd"}


def test_a_developer_alone_at_the_head_becomes_the_system_message() -> None:
    assert present(_DEVELOPED[2:], "string", False)[0] == {"role": "system", "content": "d"}


def test_a_developer_stays_with_its_tools_where_the_template_names_the_role() -> None:
    presented = present(_DEVELOPED, "string", True)
    assert [message["role"] for message in presented] == ["system", "user", "developer", "user"]
    assert presented[2]["tools"] == [{"x": 1}]


def test_system_messages_in_the_middle_stay_there_without_a_developer() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "u"}]
    messages.append({"role": "system", "content": "s"})
    assert present(messages, "string", False) == messages


def test_the_quoted_word_tells_whether_a_template_knows_developers() -> None:
    assert names_developer("{% if m.role == 'developer' %}")
    assert names_developer('{% if m.role == "developer" %}')
    assert not names_developer("{# for developers #}{{ developer }}")


_HEADER = "x-anthropic-billing-header: cch=1;"


def test_the_billing_header_line_is_removed_from_system_texts_only() -> None:
    assert _one({"role": "system", "content": f"{_HEADER}\nYou"})["content"] == "You"
    assert _one({"role": "user", "content": f"{_HEADER}\nYou"})["content"] == f"{_HEADER}\nYou"
    assert _one({"role": "system", "content": f" {_HEADER}"})["content"] == f" {_HEADER}"


@pytest.mark.parametrize("form", _FORMATS)
def test_a_part_that_is_only_the_billing_header_disappears(form: ContentFormat) -> None:
    parts = [{"type": "text", "text": _HEADER}, {"type": "text", "text": "You"}]
    presented = _one({"role": "system", "content": parts}, form)
    assert presented["content"] == ("You" if form == "string" else [parts[1]])
