"""A live server, driven: predictions come true on a good one, whatever it offers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from templatefix.api import SourceOptions, the_template
from templatefix.findings.verification import Bounds, LiveRun, Verification
from templatefix.report.verify_json import verify_json
from templatefix.report.verify_text import verify_text
from templatefix.serving.live import VerifyOptions, verify
from tests.example import EXAMPLE
from tests.serving.loopback import PRESERVING, SEPARATING, SERVED, Manners, serving

THINKING_OFF = {"enable_thinking": False}


def verified(manners: Manners | None = None, **options: Any) -> Verification:
    with serving(manners) as loopback:
        verification = verify(loopback.url, VerifyOptions("tiny", seconds=20, **options))
        counted = sum(verification.requests.values())
        assert counted == len(loopback.requests), "what was sent is what was counted"
    assert verification.fault is None
    return verification


def only(verification: Verification) -> LiveRun:
    assert len(verification.runs) == 1
    return verification.runs[0]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("block_size", [1, 16, 32])
@pytest.mark.parametrize("kwargs", [{}, THINKING_OFF])
def test_predictions_come_true_and_the_verdict_is_the_templates(
    streaming: bool, tools: bool, block_size: int, kwargs: dict[str, Any]
) -> None:
    for template, preserving in ((SERVED, False), (PRESERVING, True)):
        verification = verified(
            Manners(template=template, block_size=block_size),
            streaming=streaming,
            tools=tools,
            kwargs=kwargs,
            turns=5,
        )
        run = only(verification)
        assert verification.block_size == block_size
        assert len(run.turns) == 5
        if not tools:  # a tool loop keeps the example's reasoning until the user speaks
            assert run.preserving is preserving
        assert run.agrees is True
        assert all(turn.predicted and turn.predicted.exact for turn in run.turns[1:])
        assert [turn.local for turn in run.turns] == [turn.cached for turn in run.turns]
        assert {turn.external for turn in run.turns} == {0}
        lost = [turn.lost for turn in run.turns[1:]]
        if preserving:
            assert lost == [0] * 4
            assert not any(turn.divergence for turn in run.turns)


def test_a_divergence_has_the_text_of_both_sides() -> None:
    run = only(verified())
    divergence = run.turns[1].divergence
    assert divergence is not None
    assert run.turns[1].reuse == Bounds(divergence.token_index, divergence.token_index)
    assert divergence.stream.before.endswith("<|im_start|>assistant")
    assert divergence.stream.text.startswith("\n<think>\nThought 1.")
    assert divergence.prompt.text.startswith("\n\n\nAnswer 1.")


def test_tools_are_called_and_answered() -> None:
    with serving(Manners(template=PRESERVING)) as loopback:
        verify(loopback.url, VerifyOptions("tiny", tools=True, turns=4))
        last = loopback.sent("/v1/chat/completions")[-1]
    roles = [message["role"] for message in last["messages"]]
    assert roles == "system user assistant tool assistant user assistant tool".split()
    calls = last["messages"][2]["tool_calls"]
    assert last["messages"][3]["tool_call_id"] == calls[0]["id"]
    assert last["tools"]


@pytest.mark.parametrize("streaming", [False, True])
def test_whitespace_that_the_parser_leaves_before_a_call_is_not_the_templates_loss(
    streaming: bool,
) -> None:
    left = Manners(template=SEPARATING, leaves_gap=True)
    verification = verified(left, streaming=streaming, tools=True, turns=5)
    run = only(verification)
    assert [turn.lost_to for turn in run.turns] == [None, "parser", None, "parser", None]
    assert [turn.preserving for turn in run.turns[1:]] == [False, True, False, True]
    assert run.preserving is True
    assert run.agrees is True
    assert "the server's parser left the whitespace" in " ".join(verify_text(verification).split())


@pytest.mark.parametrize(
    ("template", "leaves_gap"),
    [
        (SEPARATING, False),  # nothing is left: the template prints what was written
        (PRESERVING, True),  # what is left stands once
    ],
)
def test_a_template_that_prints_whitespace_once_loses_nothing(
    template: str, leaves_gap: bool
) -> None:
    run = only(verified(Manners(template=template, leaves_gap=leaves_gap), tools=True, turns=5))
    assert {turn.lost_to for turn in run.turns} == {None}
    assert [turn.preserving for turn in run.turns[1:]] == [True] * 4


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("'<think>' + message.reasoning", "'<think>' + message.reasoning|trim"),
        ("call.function.arguments +", "call.function.arguments|upper +"),
    ],
)
def test_what_else_differs_in_a_turn_with_a_call_is_the_templates_loss(
    written: str, printed: str
) -> None:
    changed = Manners(template=SEPARATING.replace(written, printed), leaves_gap=True)
    assert changed.template != SEPARATING
    run = only(verified(changed, tools=True, turns=3))
    assert {turn.lost_to for turn in run.turns} == {None}
    assert run.turns[1].preserving is False


def test_a_client_that_drops_reasoning_makes_no_verdict_but_is_predicted() -> None:
    verification = verified(
        Manners(template=PRESERVING), clients=("faithful", "reasoning-dropping")
    )
    faithful, dropping = verification.runs
    assert (faithful.preserving, faithful.agrees) == (True, True)
    assert (dropping.preserving, dropping.agrees) == (None, True)
    assert {turn.lost_to for turn in dropping.turns[1:]} == {"client"}
    assert all(turn.lost for turn in dropping.turns[1:])
    assert verification.preserving is True


def test_conversations_do_not_find_one_another() -> None:
    twice = verified(clients=("faithful", "faithful"))
    assert [run.turns[0].cached for run in twice.runs] == [0, 0]
    assert twice.agrees is True


def test_what_was_cached_before_is_told_from_what_this_conversation_left() -> None:
    with serving(Manners()) as loopback:
        options = VerifyOptions("tiny", salt=False)
        assert verify(loopback.url, options).agrees is True
        again = only(verify(loopback.url, options))
    assert again.turns[0].cached
    assert again.agrees is False
    assert any("cached before this conversation" in note for note in again.notes)


@pytest.mark.parametrize("template", [SERVED, PRESERVING])
def test_a_server_that_does_not_heed_the_salt_is_predicted_all_the_same(template: str) -> None:
    manners = Manners(template=template, no_salt=True)
    verification = verified(manners, clients=("faithful", "reasoning-dropping"))
    second = verification.runs[1]
    assert second.turns[0].cached
    assert verification.agrees is True
    assert any("does not heed cache_salt" in note for note in second.notes)


def test_a_server_without_a_prefix_cache_is_recognised() -> None:
    run = only(verified(Manners(caching=False)))
    assert run.agrees is False
    assert any("prefix caching may be off" in note for note in run.notes)


def test_an_answer_that_was_cut_makes_no_verdict() -> None:
    run = only(verified(Manners(template=PRESERVING, cut=True), max_tokens=5))
    assert run.preserving is None
    assert {turn.lost_to for turn in run.turns[1:]} == {"length"}
    assert run.agrees is True
    assert [turn.completion for turn in run.turns] == [5] * 4


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("block_size", [1, 16])
def test_without_token_ids_prompts_come_from_tokenize_and_figures_are_bounded(
    streaming: bool, block_size: int
) -> None:
    manners = Manners(token_ids=False, block_size=block_size)
    verification = verified(manners, streaming=streaming)
    exact = only(verified(Manners(block_size=block_size)))
    run = only(verification)
    for turn, known in zip(run.turns[1:], exact.turns[1:], strict=True):
        assert turn.predicted is not None
        assert known.predicted is not None
        assert known.predicted.low in turn.predicted
        assert turn.cached in turn.predicted
    assert run.preserving is False
    assert verification.requests["POST /tokenize"] == 4


def test_reasoning_that_is_nowhere_in_the_next_prompt_was_lost_whatever_the_ids() -> None:
    # The served template's prompt is continued up to the answer, whose ids are not known.
    template = SERVED.replace(
        "<|im_start|>assistant\\n' }}\n    {%- if enable",
        "<|im_start|>assistant' }}\n    {%- if enable",
    )
    assert template != SERVED
    long = {"role": "user", "content": "Say more about the river, please. " * 30}
    conversation = {"messages": [long, {"role": "assistant", "content": ""}] * 4}
    run = only(verified(Manners(template=template, token_ids=False), conversation=conversation))
    assert {turn.evidence for turn in run.turns[1:]} == {"text"}
    assert run.preserving is False


def test_without_any_ids_the_blocks_decide() -> None:
    nothing: dict[str, Any] = {
        "token_ids": False,
        "tokenize": False,
        "detokenize": False,
        "metrics": False,
    }
    for template, preserving in ((SERVED, False), (PRESERVING, True)):
        verification = verified(Manners(template=template, **nothing))
        run = only(verification)
        assert run.preserving is preserving
        assert {turn.evidence for turn in run.turns[1:]} <= {"blocks", "lengths"}
        assert any("/tokenize" in sentence for sentence in verification.unseen)
        assert verification.requests["POST /tokenize"] == 1, "what is not there is asked for once"
        assert verification.requests["GET /metrics"] == 1


def test_counters_stand_in_for_usage() -> None:
    run = only(verified(Manners(details=False)))
    assert run.agrees is True
    assert [turn.cached for turn in run.turns] == [turn.local for turn in run.turns]


def test_a_server_that_reports_nothing_is_only_predicted() -> None:
    verification = verified(Manners(details=False, metrics=False))
    run = only(verification)
    assert (run.preserving, run.agrees) == (False, None)
    assert any("--enable-prompt-tokens-details" in sentence for sentence in verification.unseen)
    assert verification.block_size_from == "default"


def test_counters_that_others_move_are_not_used() -> None:
    run = only(verified(Manners(others=1)))
    assert run.agrees is True, "usage is this request's own"
    assert {turn.local for turn in run.turns} == {None}
    assert any("other requests" in note for note in run.notes)


def test_sglang_tells_its_tiers_apart_and_calls_reasoning_otherwise() -> None:
    manners = Manners(template=PRESERVING, block_size=1, sglang=True, external=True)
    verification = verified(manners, block_size=1)
    run = only(verification)
    assert (run.preserving, run.agrees) == (True, True)
    assert all(turn.local == turn.cached for turn in run.turns)
    assert run.turns[1].cached == run.turns[0].stream - 1


@pytest.mark.parametrize(
    ("template", "write_back", "hits"),
    [(SERVED, False, 0), (SERVED, True, 0), (PRESERVING, False, 0), (PRESERVING, True, 1)],
)
def test_only_write_back_and_a_preserving_template_reach_into_the_answer(
    template: str, write_back: bool, hits: int
) -> None:
    manners = Manners(template=template, external=True, write_back=write_back)
    run = only(verified(manners, reset=True, write_back=write_back))
    assert run.agrees is True
    for before, turn in zip(run.turns, run.turns[1:], strict=False):
        assert turn.local == 0
        assert turn.external == turn.cached
        assert turn.external is not None
        assert (turn.external > before.prompt) is bool(hits)


def test_a_store_that_holds_prompts_only_is_recognised() -> None:
    manners = Manners(template=PRESERVING, external=True, write_back=False)
    run = only(verified(manners, reset=True))
    assert run.agrees is False
    assert any("--no-write-back" in note for note in run.notes)


def test_no_store_at_all_is_recognised() -> None:
    run = only(verified(Manners(template=PRESERVING), reset=True))
    assert run.agrees is False
    assert any("no store" in note for note in run.notes)


def test_a_reset_is_repeated_while_the_server_says_that_it_failed() -> None:
    verification = verified(Manners(refused_resets=2, external=True), reset=True)
    assert verification.agrees is True
    assert verification.requests["POST /reset_prefix_cache"] == 3 + 2


def test_another_block_size_that_explains_the_figures_is_named() -> None:
    run = only(verified(Manners(block_size=32), block_size=16))
    assert run.agrees is False
    assert any("--block-size 32" in note for note in run.notes)


def test_the_candidate_is_judged_beside_the_served_template() -> None:
    manners = Manners(trusts_templates=True)
    verification = verified(manners, template=PRESERVING)
    served, candidate = verification.runs
    assert (served.rendered, served.preserving) == ("served", False)
    assert (candidate.rendered, candidate.preserving) == ("candidate", True)
    assert verification.preserving is True
    assert verification.agrees is True
    assert served.computed is not None
    assert candidate.computed is not None
    assert candidate.computed < served.computed


def test_a_candidate_that_is_ignored_is_noticed() -> None:
    verification = verified(Manners(ignores_templates=True, trusts_templates=True), template="x")
    assert any("ignores the candidate" in note for note in verification.runs[1].notes)


def test_a_refused_candidate_leaves_the_served_template_reported() -> None:
    with serving() as loopback:
        verification = verify(loopback.url, VerifyOptions("tiny", template=PRESERVING))
    assert verification.fault is not None
    assert "--trust-request-chat-template" in verification.fault
    assert len(verification.runs[0].turns) == 4
    assert verification.runs[1].turns == ()


def test_a_conversation_file_is_asked_and_its_extra_fields_are_sent(tmp_path: Path) -> None:
    conversation = {
        "messages": [
            {"role": "user", "content": "One?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
                "extra_body": {"vllm_xargs": {"answer": "Scripted one."}, "seed": 1},
            },
            {"role": "tool", "tool_call_id": "a", "content": "the result"},
            {"role": "assistant", "content": "x", "completion": "not sent"},
            {
                "role": "user",
                "content": "Two?",
                "extra_body": {"vllm_xargs": {"answer": "Scripted two."}},
            },
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    with serving(Manners(template=PRESERVING)) as loopback:
        options = VerifyOptions("tiny", conversation=conversation, extra_body={"top_k": 1})
        verification = verify(loopback.url, options)
        sent = loopback.sent("/v1/chat/completions")
    assert verification.fault is None
    assert verification.agrees is True
    assert [body["top_k"] for body in sent] == [1, 1, 1]
    assert [body.get("seed") for body in sent] == [1, None, None]
    assert sent[1]["messages"][2]["tool_call_id"] == "call-1", "the server's own call is answered"
    assert all("extra_body" not in m and "completion" not in m for m in sent[-1]["messages"])
    assert sent[-1]["messages"][-1] == {"role": "user", "content": "Two?"}
    assert sent[0]["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_caller_can_add_fields_to_each_request() -> None:
    with serving(Manners(template=PRESERVING)) as loopback:
        options = VerifyOptions(
            "tiny",
            each_body=lambda turn, messages: {
                "vllm_xargs": {"answer": f"Turn {turn} of {len(messages)} messages."}
            },
        )
        run = only(verify(loopback.url, options))
        last = loopback.sent("/v1/chat/completions")[-1]
    assert run.agrees is True
    assert last["messages"][2]["content"] == "\n\nTurn 1 of 2 messages."


def test_a_conversation_that_expects_a_call_ends_when_there_is_none() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    conversation = {
        "messages": [
            {"role": "user", "content": "One?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "the result"},
        ]
    }
    with serving() as loopback:
        verification = verify(loopback.url, VerifyOptions("tiny", conversation=conversation))
    assert verification.fault is not None
    assert "turn 2" in verification.fault
    assert "calls no tool" in verification.fault
    assert len(verification.runs[0].turns) == 1


@pytest.mark.parametrize(
    "manners",
    [
        Manners(),
        Manners(token_ids=False),
        Manners(detokenize=False),
        Manners(details=False, metrics=False),
        Manners(others=3),
    ],
)
def test_the_text_report_fits_in_eighty_columns_and_is_markdown(manners: Manners) -> None:
    text = verify_text(verified(manners, clients=("faithful", "reasoning-dropping"), turns=6))
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("turn |"))
    assert lines[head - 1] == ""
    assert [line.count("|") for line in lines[head : head + 8]] == [8] * 8
    assert len({len(line) for line in lines[head : head + 8]}) == 1
    assert text.endswith("\n")
    assert lines[-1].startswith(("agree: ", "not compared: "))


def test_the_json_report_has_the_figures() -> None:
    document = json.loads(verify_json(verified(), "0"))
    turn = document["runs"][0]["turns"][1]
    assert document["preserving"] is False
    assert document["agrees"] is True
    assert turn["predicted"] == {"low": turn["cached"], "high": turn["cached"]}
    assert turn["divergence"]["token_index"] == turn["reused"]["low"]
    assert turn["divergence"]["stream"]["ids"]


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("kwargs", [{}, THINKING_OFF])
def test_our_own_rendering_makes_up_for_ids_that_are_not_shown(
    block_size: int, kwargs: dict[str, Any]
) -> None:
    hidden = Manners(token_ids=False, tokenize=False, block_size=block_size, sglang=True)
    shown = Manners(block_size=block_size)
    template = the_template(str(EXAMPLE), SourceOptions())
    run = only(verified(hidden, target=template, block_size=block_size, kwargs=kwargs))
    exact = only(verified(shown, kwargs=kwargs))
    assert [turn.predicted for turn in run.turns] == [turn.predicted for turn in exact.turns]
    assert [turn.reuse for turn in run.turns] == [turn.reuse for turn in exact.turns]
    assert run.agrees is True


def test_our_own_rendering_is_not_believed_where_the_lengths_differ() -> None:
    template = the_template(str(EXAMPLE), SourceOptions())
    hidden = Manners(template=PRESERVING, token_ids=False, tokenize=False)
    run = only(verified(hidden, target=template))
    assert not all(turn.predicted and turn.predicted.exact for turn in run.turns[1:])
    assert run.agrees is True
