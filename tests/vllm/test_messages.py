"""What a template is handed is what vLLM hands to it, whatever a client sends.

The templates here print all that they are given as JSON, so that no key and no order stays hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from templatefix.chat.battery import TOOLS
from templatefix.chat.conversation import Message, Scenario, assistant_message
from templatefix.chat.strategies import conversations
from tests.vllm.both_sides import Asked, BothSides, as_before_transformers_5_20
from tests.vllm.odd_messages import CASES, LENIENT, USER
from tests.vllm.render_server import RenderServer

pytestmark = pytest.mark.vllm

_ALL = "{{ messages | tojson }}|{{ tools | tojson }}"
TEMPLATES = {
    "string": _ALL,
    "openai": "{% for m in messages %}{% for part in m.content %}{% endfor %}{% endfor %}" + _ALL,
    "developer": "{{ 'developer' }}" + _ALL,
}
#: The names that vLLM may hand over, besides messages and tools.
KWARGS = """\
{{ mode | default('unset') | tojson }}|{{ enable_thinking | default('unset') | tojson }}
{{ documents | tojson }}|{{ add_generation_prompt }}|{{ tools | tojson }}
{{ bos_token | default('unset') }}|{{ eos_token }}|{{ pad_token }}
{{ unk_token | default('unset') }}
{{ chat_template | default('unset') }}|{{ continue_final_message | default('unset') }}
{{ max_length | default('unset') }}|{{ padding | default('unset') }}
{{ return_dict | default('unset') }}|{{ reasoning_effort | default('unset') }}
"""

TOOL_LISTS: tuple[list[Message], ...] = (
    list(TOOLS),
    [{"function": {"parameters": {"type": "object"}, "z": 1, "name": "f"}, "z": 1}],
    [{"type": "function", "function": {"name": "f", "description": None, "parameters": None}}],
    [{"type": "function", "function": {"strict": True, "name": "f"}}],
    [
        {
            "type": "function",
            "function": {"name": "f", "strict": False, "parameters": {"b": 1, "a": 2}},
        }
    ],
    [{"type": "function", "defer_loading": True, "function": {"name": "f"}}],
    [{"type": "function", "function": {"name": "f", "defer_loading": False}}],
    [{"type": "custom", "function": {"name": "f"}}],
    [{"type": "function", "function": {}}],
    [{"type": "function"}],
)

KWARG_SETS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "fast", "enable_thinking": False},
    {"mode": None},
    {"mode": "auto"},
    {"mode": ["auto", None]},
    {"mode": 0},
    {"mode": ""},
    {"enable_thinkin": False},
    {"documents": [{"title": "t", "text": "x"}]},
    {"documents": []},
    {"add_generation_prompt": False},
    {"continue_final_message": True},
    {"chat_template": "x"},
    {"tokenize": True},
    {"padding": True, "max_length": 5, "truncation": True, "return_dict": True},
    {"tools": []},
    {"tools": None},
    {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    {"eos_token": None},
    {"reasoning_effort": "low"},
)


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    as_before_transformers_5_20(monkeypatch)


def _agree(server: RenderServer, template: str, requests: list[Asked]) -> None:
    wrong = list(BothSides(server, template, {}).differences(requests))
    assert not wrong, f"{len(wrong)} of {len(requests)}\n" + "\n".join(map(str, wrong[:5]))


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_every_message_is_handed_over_as_vllm_does(
    template: str, vllm_server: RenderServer
) -> None:
    _agree(vllm_server, template, [Asked(messages) for messages in CASES.values()])


@pytest.mark.usefixtures("older")
def test_forms_that_only_the_schema_refuses_are_read(vllm_server: RenderServer) -> None:
    for name, messages in LENIENT.items():
        sides = BothSides(vllm_server, _ALL, {})
        (difference,) = sides.differences([Asked(messages)])
        assert "validation error" in difference.theirs, name
        assert difference.ours.startswith("["), name


def test_tools_are_handed_over_as_vllm_does(vllm_server: RenderServer) -> None:
    _agree(vllm_server, _ALL, [Asked([USER], tools) for tools in TOOL_LISTS])


def test_kwargs_are_handed_over_as_vllm_does(vllm_server: RenderServer) -> None:
    requests = [Asked([USER], tools, kwargs) for kwargs in KWARG_SETS for tools in (None, TOOLS)]
    _agree(vllm_server, KWARGS, requests)


def test_tokenize_renders_the_same_prompt(vllm_server: RenderServer) -> None:
    sides = BothSides(vllm_server, _ALL, {})
    # The endpoint does not rename reasoning_content; reasoning it takes.
    for name in ("plain", "parts", "reasoning", "a call beside reasoning", "a developer"):
        body = sides.body(Asked(CASES[name], TOOLS))
        rendered = vllm_server.render(body).body["token_ids"]
        assert vllm_server.post("/tokenize", body).body["tokens"] == rendered


def _sent(scenario: Scenario) -> Iterator[Message]:
    for turn in scenario.turns:
        for message in turn.new_messages:
            at = message.get("tool_call_id")
            yield message if at is None else {**message, "tool_call_id": f"call_{at}"}
        if turn.answer is not None:
            yield assistant_message(turn.answer)


@pytest.mark.usefixtures("older")
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(conversations(("<think>", "</think>", "<tool_call>"), tools=True, system=True))
def test_conversations_that_are_searched_are_handed_over_as_vllm_does(
    vllm_server: RenderServer, scenario: Scenario
) -> None:
    messages = list(_sent(scenario))
    for template in (TEMPLATES["string"], TEMPLATES["openai"]):
        _agree(vllm_server, template, [Asked(messages, TOOLS)])
