"""What stands in a recording is read in many shapes, and what cannot be read is named."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from templatefix.errors import TargetError
from templatefix.serving.recorded import lines as reading
from templatefix.serving.recorded.lines import Recording
from templatefix.serving.recorded.shapes import Exchange, Unreadable, exchange_of
from tests.serving.traffic_log import report
from tests.subjects import APPENDS_ALL, template

MESSAGES = [{"role": "user", "content": "Which city?"}]
TOOLS = [{"type": "function", "function": {"name": "height", "parameters": {}}}]
KWARGS = {"enable_thinking": False}
CALL = {"id": "c1", "type": "function", "function": {"name": "height", "arguments": '{"a": 1}'}}
REQUEST = {"messages": MESSAGES, "tools": TOOLS, "chat_template_kwargs": KWARGS}
MESSAGE = {
    "role": "assistant",
    "content": "Porto.",
    "reasoning_content": "Hm.",
    "tool_calls": [CALL],
    "refusal": None,
}
RESPONSE = {
    "id": "chatcmpl-1",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop", "token_ids": [1, 2]}],
    "prompt_token_ids": [3, 4],
}
CHUNKS: list[dict[str, Any]] = [
    {"prompt_token_ids": [3, 4], "choices": [{"index": 0, "delta": {"role": "assistant"}}]},
    {"choices": [{"index": 0, "delta": {"reasoning": "H"}, "token_ids": [1]}]},
    {"choices": [{"index": 0, "delta": {"reasoning": "m."}}]},
    {"choices": [{"index": 0, "delta": {"content": "Por"}, "token_ids": [2]}]},
    {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
    {"choices": [{"index": 0, "delta": {"content": "to."}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **CALL}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 2}},
]
CHUNKS[6]["choices"][0]["delta"]["tool_calls"][0]["function"] = {
    "name": "height",
    "arguments": '{"a"',
}
CHUNKS.insert(
    7,
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}}]},
)
EVENTS = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n"


def read(entry: Any) -> Exchange:
    return exchange_of(1, json.dumps(entry).encode())


@pytest.mark.parametrize(
    "entry",
    [
        {**REQUEST, "response": RESPONSE},
        {**REQUEST, **RESPONSE},
        {"request": REQUEST, "response": RESPONSE},
        {"request": {"method": "POST", "body": REQUEST}, "response": {"body": RESPONSE}},
        {"request": json.dumps(REQUEST), "response": json.dumps(RESPONSE)},
        {"request_body": REQUEST, "response_body": RESPONSE, "message": "POST /v1/chat"},
        {
            "custom_id": "1",
            "body": REQUEST,
            "response": {"status_code": 200, "body": RESPONSE},
            "error": None,
        },
        {
            "messages": MESSAGES,
            "model_parameters": {"tools": TOOLS, "extra_body": {"chat_template_kwargs": KWARGS}},
            "response": RESPONSE,
            "status": "success",
        },
        {
            "messages": "redacted",
            "proxy_server_request": {"body": REQUEST},
            "response": RESPONSE,
        },
        {
            "request": {
                "messages": MESSAGES,
                "tools": TOOLS,
                "extra_body": {"chat_template_kwargs": KWARGS},
            },
            "response": CHUNKS,
        },
        {"request": REQUEST, "response": {"chunks": CHUNKS}},
        {"request": REQUEST, "response": EVENTS},
        {"request": REQUEST, "response": [RESPONSE]},
    ],
)
def test_every_shape_says_the_same(entry: Any) -> None:
    exchange = read(entry)
    assert list(exchange.messages) == MESSAGES
    assert list(exchange.tools or ()) == TOOLS
    assert exchange.kwargs == KWARGS
    assert exchange.prompt_ids == (3, 4)
    assert exchange.answer is not None
    assert exchange.answer.ended
    assert exchange.answer.token_ids == (1, 2)
    assert exchange.answer.message == {
        "role": "assistant",
        "content": "Porto.",
        "reasoning": "Hm.",
        "tool_calls": [CALL],
    }


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        ({"response": MESSAGE}, "Porto."),
        ({"response": {"message": MESSAGE}}, "Porto."),
        ({"response": "Porto."}, "Porto."),
        ({"message": "request received"}, None),
        ({"response": None}, None),
        ({"response": {"choices": []}}, None),
        ({"response": []}, None),
    ],
)
def test_answers_come_whole_as_messages_or_text_or_not_at_all(
    entry: dict[str, Any], answer: str | None
) -> None:
    found = read({"request": REQUEST, **entry}).answer
    assert (found and found.message["content"]) == answer


@pytest.mark.parametrize("reason", ["length", "abort", None])
def test_a_cut_answer_is_known_by_its_finish_reason(reason: str | None) -> None:
    choice = {"message": MESSAGE, "finish_reason": reason}
    found = read({**REQUEST, "response": {"choices": [choice]}}).answer
    assert found is not None
    assert not found.ended
    broken_off = read({**REQUEST, "response": CHUNKS[:4]}).answer
    assert broken_off is not None
    assert not broken_off.ended


def test_a_request_that_failed_or_asks_for_something_else_is_not_replayed() -> None:
    for entry in (
        {**REQUEST, "response": {"status_code": 429, "body": {"error": {"message": "slow"}}}},
        {"request": REQUEST, "response": {"error": {"message": "no"}}},
        {**REQUEST, "status": "failure"},
        {**REQUEST, "error": "timeout"},
    ):
        assert read(entry).why_not == "the server answered with an error"
    assert "continue_final_message" in str(read({**REQUEST, "continue_final_message": True}))


def test_reasoning_effort_is_a_kwarg_as_vllm_makes_it_one() -> None:
    high = read({"messages": MESSAGES, "reasoning_effort": "high"})
    assert high.kwargs == {"reasoning_effort": "high", "enable_thinking": True}
    none = read({**REQUEST, "reasoning_effort": "none", "chat_template_kwargs": None})
    assert none.kwargs == {"reasoning_effort": "none", "enable_thinking": False}
    assert read({**REQUEST, "reasoning_effort": "high"}).kwargs == {
        "reasoning_effort": "high",
        **KWARGS,
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"prompt": "Which"}', "no request with messages"),
        (b'{"messages": []}', "no request with messages"),
        (b'{"messages": [{"content": "no role"}]}', "messages[0] is not an object with a role"),
        (b'{"messages": [{"role": "user", "content": 3}]}', "messages[0].content"),
        (b'{"messages": [{"role": "user", "content": ""}], "tools": [1]}', "tools is not"),
        (
            b'{"messages": [{"role": "user", "content": ""}], "chat_template_kwargs": 1}',
            "chat_template_kwargs is not an object",
        ),
        (
            b'{"messages": [{"role": "user", "content": ""}], "response": '
            b'{"choices": [{"message": {"content": "x"}, "token_ids": [-1]}]}}',
            "token_ids is not a list of token ids",
        ),
        (
            b'{"messages": [{"role": "user", "content": ""}], "response": '
            b'{"choices": [{"message": {"content": "x", "tool_calls": [{}]}}]}}',
            "the response's message.tool_calls[0]",
        ),
    ],
)
def test_a_line_that_cannot_be_read_says_why(line: bytes, why: str) -> None:
    with pytest.raises(Unreadable) as unreadable:
        exchange_of(1, line)
    assert why in str(unreadable.value)


def test_broken_lines_are_counted_with_their_numbers_and_the_rest_is_replayed() -> None:
    good = json.dumps({"messages": MESSAGES})
    found = report(template(APPENDS_ALL), [good, "{", "", "  ", "[]", good]).recorded
    assert found is not None
    assert [each.line for each in found.skipped] == [2, 5]
    assert (found.lines, found.skipped_lines, found.requests) == (6, 2, 2)
    many = report(template(APPENDS_ALL), [good, *["{"] * 100]).recorded
    assert many is not None
    assert many.skipped_lines == 100
    assert len(many.skipped) == 20


@pytest.mark.parametrize("lines", [["{", "[]"], [b"\xff\xfe["], ["", "# Traffic"]])
def test_a_file_of_which_no_line_is_a_request_is_an_error(lines: list[str | bytes]) -> None:
    with pytest.raises(TargetError, match=r"holds no request; line [12] is not .*one JSON request"):
        report(template(APPENDS_ALL), lines)


def test_a_line_without_end_is_skipped_and_never_held_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "LONGEST", 50)
    content = b'{"a": 1}\n' + b"x" * 1000 + b"\n" + b'{"b": 2}'
    largest = 0

    class Watched(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            nonlocal largest
            line = super().readline(size)
            largest = max(largest, len(line))
            return line

    found = list(Recording("-", Watched(content)).lines())
    assert found == [(1, b'{"a": 1}\n'), (2, None), (3, b'{"b": 2}')]
    assert largest <= 51


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    stream = io.BytesIO(b'\xef\xbb\xbf{"messages": []}\n')
    assert [line for _, line in Recording("-", stream).lines()] == [b'{"messages": []}\n']


def test_standard_input_is_read_once() -> None:
    recording = Recording("-", io.BytesIO(b"{}\n"))
    list(recording.lines())
    with pytest.raises(TargetError, match="name a file"):
        list(recording.lines())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**33)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["user", "assistant", "tool", "system", "length", "{}", "[1]", "data: {}"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                "request response messages role content tools choices message delta finish_reason "
                "token_ids tool_calls function name arguments index body chunks error status "
                "chat_template_kwargs extra_body reasoning prompt_token_ids type text id".split()
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)
NEARLY = st.fixed_dictionaries(
    {
        "messages": st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["user", "assistant", "tool", "system", "x"])},
                optional={
                    "content": st.text(max_size=5) | JSON,
                    "reasoning": st.text(max_size=3) | JSON,
                    "tool_calls": st.lists(JSON | st.just(CALL), max_size=2) | JSON,
                    "tool_call_id": JSON,
                },
            ),
            max_size=4,
        )
    },
    optional={
        "response": JSON
        | st.fixed_dictionaries(
            {"choices": st.lists(st.fixed_dictionaries({"message": JSON, "delta": JSON}))}
        )
        | st.just(RESPONSE),
        "tools": JSON | st.just(TOOLS),
        "chat_template_kwargs": JSON,
    },
)


LINES = NEARLY.map(json.dumps) | JSON.map(json.dumps) | st.binary()


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(LINES)
def test_a_line_is_an_exchange_or_the_reason_why_it_is_none(line: str | bytes) -> None:
    content = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
    try:
        exchange = exchange_of(7, content)
    except Unreadable:
        return
    assert exchange.line == 7
    assert exchange.messages


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(LINES, max_size=8))
def test_no_recording_whatever_it_holds_ends_in_a_traceback(lines: list[str | bytes]) -> None:
    request = json.dumps({"messages": MESSAGES})
    found = report(template(APPENDS_ALL), [*lines, request]).recorded
    assert found is not None
    accounted = found.requests + found.skipped_lines + sum(e.requests for e in found.set_aside)
    assert accounted <= found.lines
    assert sum(loss.lost_tokens for loss in found.losses) == found.lost_tokens
