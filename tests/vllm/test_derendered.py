"""Answers there and back through the endpoint itself, as two servers with other parsers have it.

The code behind it is asked for all pairs of parsers in ``tests/dialect/test_vllm_parsers.py``; here
it is reached as a client reaches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from templatefix.chat.answer import Answer, ToolCall
from templatefix.tokens import Encoder
from tests.dialect.vllm_cases import Case, round_trips
from tests.vllm.render_server import PARSERS, RenderServer, python_with_vllm, rendering

pytestmark = pytest.mark.vllm

#: Its markers are tokens of Qwen3's tokenizer, too; both of its parsers are an engine.
OTHERS = ("nemotron_v3", "qwen3_coder")


@pytest.fixture(scope="module")
def other_server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RenderServer]:
    home = tmp_path_factory.mktemp("other")
    with rendering(python_with_vllm(), model, home, OTHERS) as server:
        yield server


def _answer(server: RenderServer, encoder: Encoder, case: Case) -> Answer:
    request: dict[str, Any] = {
        "messages": [{"role": "user", "content": "q"}],
        "tools": case.tools,
        "chat_template_kwargs": case.kwargs,
    }
    prompt = "q<think>" if case.opened else "q"
    message = server.derender(request, encoder.encode(prompt), encoder.encode(case.completion))
    calls = tuple(
        ToolCall(call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    return Answer(message.get("reasoning"), message.get("content"), calls)


def _agree(server: RenderServer, pair: tuple[str, str]) -> None:
    cases = [case for _, case in round_trips(pair) if case.completion]
    assert any(case.opened for case in cases)
    assert any("<tool_call>" in case.completion for case in cases)
    encoder = server.encoder()
    answers = [(case, _answer(server, encoder, case)) for case in cases]
    wrong = [(case, answer) for case, answer in answers if answer != case.ours()]
    assert not wrong, "\n".join(
        f"{case}\n  {answer}\n  {case.ours()}" for case, answer in wrong[:3]
    )


def test_answers_come_back_from_the_server(vllm_server: RenderServer) -> None:
    _agree(vllm_server, PARSERS)


def test_answers_come_back_from_a_server_with_other_parsers(other_server: RenderServer) -> None:
    _agree(other_server, OTHERS)
