"""A conversation replayed: the verdict is the template's, and what others lose is theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import BATTERY, PROBE, TOOLS
from templatefix.chat.conversation import Message, Scenario, Turn
from templatefix.chat.strategies import conversations
from templatefix.checking import CheckOptions, Subject
from templatefix.dialect.author import Author
from templatefix.dialect.parsers import Parsers
from templatefix.replay.run import Plan, Replay, Run, replay
from tests.subjects import APPENDS, APPENDS_ALL, branches, report, subject

quick = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Lossless(Parsers):
    """The parsers of a server that hands on exactly what was meant."""

    def needs_block(self, kwargs: Mapping[str, Any]) -> bool:
        return False

    def answer(self, completion: str, meant: Answer, **how: Any) -> Answer:
        return meant


def _lossless(ready: Subject) -> Subject:
    author = ready.author
    stops, added = author.stops, ready.encoder.special_tokens()
    return replace(ready, author=Author(ready.server, stops, added, (), Lossless(None, None)))


def _run(ready: Subject, scenario: Scenario, block_size: int = 16, **plan: Any) -> Run:
    kwargs = plan.pop("kwargs", {})
    return replay(Plan(scenario, kwargs, **plan), ready.author, ready.encoder, block_size)


#: Verdicts come from text here: where texts agree, tokens may still differ at the seam.
_APPENDING = _lossless(subject(APPENDS_ALL, exact=False))
_EXACT = _lossless(subject(APPENDS_ALL))


@quick
@given(conversations((), tools=True, system=True))
def test_a_template_that_only_appends_is_preserving_for_any_conversation(
    scenario: Scenario,
) -> None:
    run = _run(_APPENDING, scenario)
    assert run.preserving is True
    assert run.completion == "training-view"


@quick
@given(conversations(("<think>", "<b>"), tools=True, system=True), st.sampled_from([1, 16, 32]))
def test_the_figures_of_any_conversation_are_consistent(scenario: Scenario, block: int) -> None:
    run = _run(_EXACT, scenario, block)
    for before, comparison, after in zip(
        run.requests, run.comparisons, run.requests[1:], strict=False
    ):
        assert comparison.before is before
        assert comparison.after is after
        assert before.stream_ids[: comparison.reuse] == after.prompt_ids[: comparison.reuse]
        assert comparison.hit % block == 0
        assert comparison.hit <= comparison.reuse
        assert comparison.hit <= comparison.ideal <= len(after.prompt_ids) - 1
        assert comparison.ideal <= len(before.stream_ids) - 1
        assert comparison.lost >= 0
        assert before.stream.startswith(before.prompt)
        assert before.stream_ids[: len(before.prompt_ids)] == before.prompt_ids
        assert comparison.turn >= 2


def test_every_message_of_the_conversation_is_sent_again() -> None:
    run = _run(_EXACT, PROBE)
    counts = [len(request.messages) for request in run.requests]
    assert counts == [2, 4, 6, 8]
    assert [message["role"] for message in run.requests[-1].messages[-3:]] == [
        "user",
        "assistant",
        "user",
    ]


def test_tool_results_carry_the_ids_of_the_calls_that_they_answer() -> None:
    scenario = next(s for s in BATTERY if s.name == "parallel-tools")
    last = _run(_EXACT, scenario).requests[-1]
    calls = [call["id"] for call in last.messages[-3]["tool_calls"]]
    assert [message["tool_call_id"] for message in last.messages[-2:]] == calls
    assert len(set(calls)) == 2


_DROPS = branches(
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if loop.last and message.reasoning_content is defined %}"
    "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}"
    "{{- message.content + '<|im_end|>\\n' }}"
)


def _asked(text: str) -> Message:
    return {"role": "user", "content": text}


def _turns(*answers: Answer) -> Scenario:
    turns = [
        Turn(({"role": "user", "content": f"question {i}"},), a) for i, a in enumerate(answers)
    ]
    return Scenario("s", (*turns, Turn(({"role": "user", "content": "last"},))), core=True)


def test_what_a_faithful_client_sends_back_and_the_template_drops_breaks() -> None:
    run = _run(subject(_DROPS), _turns(Answer("why", "this")))
    assert run.preserving is False
    assert run.lost_to is None


@pytest.mark.parametrize("text", [_DROPS, APPENDS_ALL])
def test_what_a_client_drops_is_lost_to_the_client_and_no_verdict(text: str) -> None:
    run = _run(subject(text), _turns(Answer("why", "this")), client="reasoning-dropping")
    assert run.preserving is None
    assert run.lost_to == "client"
    assert run.comparisons[0].lost > 0 or run.comparisons[0].ideal == 0
    assert "reasoning" not in run.requests[1].messages[1]


def test_no_finding_comes_of_a_client_that_drops_reasoning() -> None:
    checked = report(_DROPS)
    dropping = [run for run in checked.runs if run.client == "reasoning-dropping"]
    assert dropping
    assert all(run.preserving is not False and run.lost_to == "client" for run in dropping)
    assert not any("reasoning-dropping" in i for f in checked.findings for i in f.run_ids)


def test_what_a_parser_loses_is_lost_to_the_parser() -> None:
    # The dialect of this parser drops whitespace at the end of reasoning.
    text = branches(
        "{{- '<|im_start|>assistant\\n<think>' + message.reasoning_content + '</think>' }}"
        "{{- message.content + '<|im_end|>\\n' }}",
        "{{- '<think>' }}",
    )
    checked = report(text, CheckOptions(reasoning_parser="glm45"))
    lost = [run for run in checked.runs if run.lost_to == "parser"]
    assert [run.scenario for run in lost] == ["whitespace"]
    assert all(run.preserving is None for run in lost)
    assert {finding.code for finding in checked.findings} >= {"TF301"}
    assert checked.verdict == "preserving"


_CALL = ToolCall("get_forecast", '{"place": "Porto"}')


def _called(first: str = "question") -> Scenario:
    result: Message = {"role": "tool", "tool_call_id": 0, "content": "sun"}
    asked: Message = {"role": "user", "content": first}
    turns = (Turn((asked,), Answer(None, None, (_CALL,))), Turn((result,)))
    return Scenario("s", turns, core=True, tools=TOOLS)


def test_an_unknown_completion_leaves_the_verdict_open() -> None:
    run = _run(subject(APPENDS), _called())
    assert run.completion == "unknown"
    assert run.requests[0].stream == run.requests[0].prompt
    assert run.preserving is None
    assert run.lost_to is None


def test_a_break_before_an_unknown_completion_is_a_verdict() -> None:
    moves = "{{- messages | length }}" + APPENDS
    run = _run(subject(moves), _called())
    assert run.completion == "unknown"
    assert run.preserving is False


def test_a_conversation_of_one_request_has_no_verdict() -> None:
    run = _run(_EXACT, Scenario("s", PROBE.turns[:1], core=True))
    assert run.comparisons == ()
    assert run.preserving is None


@pytest.mark.parametrize("replay_form", ["raw", "verbatim", "stripped", "inline"])
def test_the_forms_in_which_an_answer_comes_back(replay_form: Replay) -> None:
    scenario = _turns(Answer(" why\n", " this "))
    run = _run(subject(APPENDS_ALL), scenario, replay=replay_form)
    message = run.requests[1].messages[1]
    if replay_form == "inline":
        assert message["content"] == "<think> why\n</think> this "
        assert "reasoning" not in message
    else:
        loses = replay_form == "stripped"
        assert message["reasoning"] == ("why" if loses else " why\n")
        assert message["content"] == ("this" if loses else " this ")


def test_a_given_completion_is_the_stream_whatever_the_template_would_print() -> None:
    turn = Turn(
        ({"role": "user", "content": "q"},),
        Answer(None, "a"),
        completion="what was said<|im_end|>",
        replayed={"role": "assistant", "content": "a"},
    )
    scenario = Scenario("given", (turn, Turn(({"role": "user", "content": "r"},))), core=True)
    run = _run(subject(APPENDS), scenario, replay="given")
    assert run.completion == "given"
    assert run.requests[0].stream == run.requests[0].prompt + "what was said<|im_end|>"
    assert run.preserving is False


def test_a_stop_token_that_history_prints_otherwise_costs_nothing_but_is_seen() -> None:
    text = branches(
        "{{- '<|im_start|>assistant\\n' + message.content }}"
        "{{- '<|endoftext|>' if loop.last else '<|im_end|>' }}"
    )
    run = _run(
        subject(text, special_tokens={"eos_token": "<|endoftext|>"}), _turns(Answer(None, "a"))
    )
    assert run.preserving is True
    assert run.comparisons[0].stop_differs
    assert run.comparisons[0].reuse == len(run.requests[0].stream_ids) - 1


def test_the_same_request_is_rendered_once() -> None:
    ready = subject(APPENDS_ALL)
    _run(ready, PROBE)
    rendered = ready.server.renders
    _run(ready, PROBE)
    _run(ready, PROBE, 32)
    assert ready.server.renders == rendered
    assert ready.server.renderer.renders == rendered  # type: ignore[attr-defined]


def test_no_two_runs_of_a_check_are_the_same_requests() -> None:
    runs = report(APPENDS).runs
    assert len({run.id for run in runs}) == len(runs)
    assert {run.replay for run in runs if run.scenario == "plain-chat"} == {"raw"}
