"""The ready templates for DeepSeek V4 and V3.2 render what vLLM's own Python encoders render."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from templatefix.chat.battery import BATTERY, TOOLS
from templatefix.chat.conversation import Message, Scenario, assistant_message
from templatefix.chat.present import names_developer
from templatefix.chat.server import Server
from templatefix.chat.strategies import conversations
from templatefix.patching.contract.openings import Input
from templatefix.patching.shapes import SHAPES
from templatefix.ready.encoders import Comparison
from templatefix.ready.encoding import Encoding, encoding
from templatefix.ready.shelf import take
from templatefix.render import JinjaRenderer, RenderRequest
from templatefix.syntax import content_format, parse
from tests.vllm.both_sides import Asked, BothSides, as_before_transformers_5_20
from tests.vllm.render_server import RenderServer, python_with_vllm

# Several servers and imports of vLLM: minutes that every run cannot spare.
pytestmark = [pytest.mark.vllm, pytest.mark.nightly]

_EFFORTS = ("none", "low", "minimal", "medium", "high", "xhigh", "max", "odd")
V4_KWARGS: tuple[dict[str, Any], ...] = (
    {},
    *({name: value} for name in ("thinking", "enable_thinking") for value in (True, False)),
    {"thinking": False, "enable_thinking": True},
    *({"reasoning_effort": effort} for effort in _EFFORTS),
    {"reasoning_effort": 5},
    {"thinking": False, "reasoning_effort": "max"},
    {"thinking": True, "reasoning_effort": "none"},
)
V32_KWARGS: tuple[dict[str, Any], ...] = (*V4_KWARGS[:6], {"thinking": True, "x": 1})

_MARKERS = ("<think>", "</think>", "<｜User｜>", "</｜DSML｜invoke>")


class OneGap:
    """An encoder that gets content without the blank line that the parser left before the calls."""

    name = "one gap"

    def __init__(self, encoder: Encoding) -> None:
        self.encoder = encoder

    def render(self, request: RenderRequest) -> str:
        messages = [_without_gap(message) for message in request.messages]
        return self.encoder.render(RenderRequest(messages, request.tools, kwargs=request.kwargs))


def _without_gap(message: Mapping[str, Any]) -> Mapping[str, Any]:
    if message["role"] != "assistant" or not message.get("tool_calls"):
        return message
    text = "\n\n".join(part["text"] for part in message["content"])
    return {**message, "content": text.removesuffix("\n\n")}


@pytest.fixture(scope="module")
def v4() -> Iterator[Comparison]:
    with encoding("vllm:deepseek_v4", python_with_vllm()) as encoder:
        assert encoder.version == "0.32.0"
        keeping = OneGap(encoder.given({"drop_thinking": False}))
        yield Comparison(_ready("deepseek-v4"), Server(keeping, "openai", True))


@pytest.fixture(scope="module")
def v32() -> Iterator[Comparison]:
    with encoding("vllm:deepseek_v32", python_with_vllm()) as encoder:
        yield Comparison(_ready("deepseek-v3.2"), Server(encoder, "string", True))


def _ready(name: str) -> Server:
    text = take(name).text
    return Server(JinjaRenderer(text, {}), content_format(parse(text)), names_developer(text))


def _prefixes(scenario: Scenario) -> Iterator[list[Message]]:
    """What a client could send on the way: the conversation up to a user or tool message."""
    messages: list[Message] = []
    for number, turn in enumerate(scenario.turns):
        for message in turn.new_messages:
            at = message.get("tool_call_id")
            messages.append(
                message if at is None else {**message, "tool_call_id": f"{number - 1}-{at}"}
            )
            if message["role"] in ("user", "tool"):
                yield list(messages)
        if turn.answer is not None:
            ids = tuple(f"{number}-{i}" for i in range(len(turn.answer.tool_calls)))
            messages.append(assistant_message(turn.answer, ids))


def _without_answers(messages: Sequence[Message]) -> bool:
    return all(message["role"] not in ("assistant", "tool") for message in messages)


def test_v4_is_the_same_over_battery_and_shapes_in_every_mode(v4: Comparison) -> None:
    before = v4.prompts
    for scenario in (*BATTERY, *SHAPES):
        for messages in _prefixes(scenario):
            v4.look(Input(messages, scenario.tools, kwargs) for kwargs in V4_KWARGS)
            v4.look([Input(messages, None if scenario.tools else TOOLS, {})])
    assert v4.prompts - before > 1000
    assert v4.refused == 0


_CALLS: Message = {
    "role": "assistant",
    "content": "Both.",
    "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}
        for id, arguments in (("a", '{"n": 1, "s": "é \\" \\n", "l": [1.0, null]}'), ("b", ""))
    ],
}
_POOL: tuple[Message, ...] = (
    {"role": "user", "content": "u"},
    {"role": "user", "content": ""},
    {"role": "user", "content": [{"type": "text", "text": "p"}, {"type": "text", "text": "q"}]},
    {"role": "user", "content": "t", "task": "title"},
    {"role": "user", "content": "t", "task": "action"},
    {"role": "user", "content": "t", "task": "none such"},
    {"role": "system", "content": "s"},
    {"role": "system", "content": "", "task": "query"},
    {"role": "developer", "content": "d"},
    {"role": "developer", "content": "d", "tools": list(TOOLS)},
    {"role": "developer", "content": ""},
    {"role": "latest_reminder", "content": "today"},
    {"role": "critic", "content": "c"},
    {"role": "assistant", "content": "a", "reasoning": "r"},
    {"role": "assistant", "content": "a"},
    {"role": "assistant", "content": "a", "reasoning": "", "task": "domain"},
    {**_CALLS, "reasoning": "r"},
    {**_CALLS, "content": None},
    {**_CALLS, "content": "gap\n\n"},
    {"role": "tool", "tool_call_id": "b", "content": "second"},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "first"}] * 2},
    {"role": "tool", "tool_call_id": "z", "content": "nobody's"},
    {"role": "tool", "content": "nameless"},
)


def _orders(pool: Sequence[Message], count: int) -> Iterator[Input]:
    """Messages in orders that no client should send."""
    drawn = random.Random(4)
    for i in range(count):
        messages = [drawn.choice(pool) for _ in range(drawn.randint(1, 6))]
        yield Input(messages, TOOLS if i % 2 else None, V4_KWARGS[i % 7])


def test_v4_is_the_same_in_any_order_of_any_roles(v4: Comparison) -> None:
    """Tasks, reminders, results out of order or of nobody; what is refused is refused."""
    before = v4.prompts
    v4.look(_orders(_POOL, 3000))
    assert v4.prompts - before > 1000
    assert v4.refused == 0


@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(conversations(_MARKERS, tools=True, system=True))
def test_v4_is_the_same_in_conversations_that_are_searched(
    v4: Comparison, scenario: Scenario
) -> None:
    for i, messages in enumerate(_prefixes(scenario)):
        modes: tuple[dict[str, Any], ...] = (
            {},
            V4_KWARGS[(i + len(repr(scenario))) % len(V4_KWARGS)],
        )
        v4.look(Input(messages, scenario.tools, kwargs) for kwargs in modes)
    assert v4.refused == 0


def test_v32_is_the_same_where_nothing_was_answered_yet(v32: Comparison) -> None:
    before = v32.prompts
    for scenario in (*BATTERY, *SHAPES):
        for messages in filter(_without_answers, _prefixes(scenario)):
            for tools in (None, TOOLS):
                v32.look(Input(messages, tools, kwargs) for kwargs in V32_KWARGS)
    assert v32.prompts - before > 10 * len(V32_KWARGS)
    pool = [message for message in _POOL if _without_answers([message])]
    v32.look(_orders(pool, 800))
    assert v32.prompts - before > 300


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(conversations(_MARKERS, tools=False, system=True))
def test_v32_is_the_same_in_first_requests_that_are_searched(
    v32: Comparison, scenario: Scenario
) -> None:
    first = next(_prefixes(scenario))
    v32.look(Input(first, tools, kwargs) for tools in (None, TOOLS) for kwargs in V32_KWARGS)


@pytest.mark.parametrize("name", ["deepseek-v4", "deepseek-v3.2"])
def test_vllm_renders_the_ready_template_as_we_do(
    name: str, vllm_server: RenderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --tokenizer-mode hf: what is proved of our renderer is true of the server's."""
    as_before_transformers_5_20(monkeypatch)
    asked = [
        Asked(messages, scenario.tools, kwargs)
        for scenario in (*BATTERY, *SHAPES)
        for messages in _prefixes(scenario)
        for kwargs in ({}, {"thinking": name != "deepseek-v4"}, {"reasoning_effort": "max"})
    ]
    wrong = list(BothSides(vllm_server, take(name).text, {}).differences(asked))
    assert not wrong, f"{len(wrong)} of {len(asked)}\n" + "\n".join(map(str, wrong[:3]))
