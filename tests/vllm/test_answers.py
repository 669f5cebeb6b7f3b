"""What a client gets for a completion, and the whole loop that it then goes through.

Render, complete, derender, replay, render again: the server's side of that loop is vLLM's own,
ours is the replay that every verdict rests on.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import BATTERY
from templatefix.chat.conversation import Message, Scenario
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject, prepare
from templatefix.dialect.author import Unspoken
from templatefix.replay.run import Plan, Request, Run, replay
from templatefix.source import SourceOptions, load
from tests import packages
from tests.vllm.render_server import RenderServer

pytestmark = pytest.mark.vllm

MODES: tuple[Mapping[str, Any], ...] = ({}, {"enable_thinking": False}, {"enable_thinking": True})
BLOCK = 16


@cache
def _qwen3(directory: Path) -> Subject:
    """Qwen3's template with the tokenizer that the server has, and the parsers that it runs."""
    published = packages.or_skip(packages.qwen3_template)
    template = directory / "chat_template.jinja"
    template.write_text(published, encoding="utf-8")
    (loaded,) = load(str(template), SourceOptions(tokenizer=str(directory)))
    options = CheckOptions(full=True, reasoning_parser="qwen3", tool_call_parser="hermes")
    return prepare(loaded, options)


@pytest.fixture
def subject(vllm_server: RenderServer) -> Subject:
    return _qwen3(vllm_server.directory)


def _runs(subject: Subject, mode: Mapping[str, Any]) -> list[Run]:
    """The battery in one mode, replayed as the non-streaming API returns answers."""
    runs = []
    for scenario in BATTERY:
        try:
            plan = Plan(scenario, mode, replay="verbatim")
            runs.append(replay(plan, subject.author, subject.encoder, BLOCK))
        except Unspoken:
            continue  # no model of this mode gives such answers
    return runs


def _body(subject: Subject, request: Request, tools: Sequence[Message] | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": list(request.messages),
        "chat_template": subject.template.text,
        "chat_template_kwargs": dict(request.kwargs),
    }
    return {**body, "tools": list(tools)} if tools else body


def _without_stop(subject: Subject, request: Request) -> list[int]:
    """The ids of a completion, without the stop token, as ``derender`` takes them."""
    ids = request.stream_ids[len(request.prompt_ids) :]
    assert request.completion is not None
    assert request.completion.written is not None
    begin, end = request.completion.written.stop
    stop = request.completion.written.text[begin:end]
    if not stop:
        return ids
    assert subject.encoder.token_text(ids[-1]) == stop
    return ids[:-1]


def _answer_in(message: Mapping[str, Any]) -> Answer:
    calls = tuple(
        ToolCall(call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    return Answer(message.get("reasoning"), message.get("content"), calls)


def _composed(answer: Answer) -> Answer:
    """The answer as Qwen3's tokens spell it: its tokenizer composes characters (NFC)."""

    def composed(text: str | None) -> str | None:
        return None if text is None else unicodedata.normalize("NFC", text)

    return answer._replace(reasoning=composed(answer.reasoning), content=composed(answer.content))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_answers_are_what_the_server_makes_of_completions(
    mode: Mapping[str, Any], subject: Subject, vllm_server: RenderServer
) -> None:
    compared = 0
    for run in _runs(subject, mode):
        tools = run.plan.scenario.tools
        for request in run.requests:
            if request.answer is None:
                continue
            ids = _without_stop(subject, request)
            if not ids:  # nothing but the stop token: the endpoint does not take that
                assert not request.answer.content
                continue
            message = vllm_server.derender(_body(subject, request, tools), request.prompt_ids, ids)
            assert _answer_in(message) == _composed(request.answer), run.plan.id
            compared += 1
    assert compared >= 20


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_without_tools_a_call_is_content(
    mode: Mapping[str, Any], subject: Subject, vllm_server: RenderServer
) -> None:
    compared = 0
    for run in _runs(subject, mode):
        for request in run.requests:
            if request.answer is None or not request.answer.tool_calls:
                continue
            assert request.completion is not None
            written = request.completion.written
            assert written is not None
            ours = subject.author.parsers.answer(
                written.text[: written.stop[0]],
                Answer(request.answer.reasoning, request.answer.content),
                state=request.completion.state,
                kwargs=request.kwargs,
                tools=None,
                verbatim=True,
            )
            message = vllm_server.derender(
                _body(subject, request, None), request.prompt_ids, _without_stop(subject, request)
            )
            assert "<tool_call>" in (ours.content or "")
            assert _answer_in(message) == ours, run.plan.id
            compared += 1
    assert compared >= 5


def _loop(
    subject: Subject, server: RenderServer, scenario: Scenario, mode: Mapping[str, Any]
) -> list[list[int]]:
    """The prompts of a conversation that is held with the server alone.

    Of our own replay only the completions are taken: the model's part.
    """
    run = replay(Plan(scenario, mode, replay="verbatim"), subject.author, subject.encoder, BLOCK)
    messages: list[Message] = []
    prompts: list[list[int]] = []
    ids: list[str] = []
    for turn, request in zip(scenario.turns, run.requests, strict=True):
        for message in turn.new_messages:
            at = message.get("tool_call_id")
            messages.append(message if at is None else {**message, "tool_call_id": ids[at]})
        body = {**_body(subject, request, scenario.tools), "messages": messages}
        prompt: list[int] = server.render(body).body["token_ids"]
        prompts.append(prompt)
        answer = server.derender(body, prompt, _without_stop(subject, request))
        ids = [call["id"] for call in answer.get("tool_calls") or ()]
        messages.append(answer)
    assert prompts == [request.prompt_ids for request in run.requests]
    return prompts


@pytest.mark.parametrize(
    ("name", "mode", "requests"),
    [
        ("reasoning-chat", {}, 4),
        ("plain-chat", {"enable_thinking": False}, 4),
        ("tool-rounds", {}, 3),
        ("tool-rounds", {"enable_thinking": False}, 3),
        ("tool-loop-then-user", {}, 4),
        ("parallel-tools", {}, 2),
    ],
    ids=str,
)
def test_the_loop_through_the_server_is_our_replay(
    name: str,
    mode: Mapping[str, Any],
    requests: int,
    subject: Subject,
    vllm_server: RenderServer,
) -> None:
    scenario = next(scenario for scenario in BATTERY if scenario.name == name)
    prompts = _loop(subject, vllm_server, scenario, mode)
    assert len(prompts) == requests
    assert all(len(prompt) > 10 for prompt in prompts)
