"""A live server's prefix cache finds what we predict, to the token, turn by turn.

One vLLM with an engine serves Qwen3's published template and the ones that ``templatefix patch``
makes of it, each sent along with its requests. The model is random, but it writes what we take
Qwen3 to write; the client replays what the server's own parsers return.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from templatefix.chat.conversation import Scenario
from templatefix.replay.run import Client
from templatefix.serving.live import VerifyOptions, verify
from tests.vllm.chats import FORMS, FOUR_TURNS, GOLDEN, TOOL_LOOP, Qwen3
from tests.vllm.engine import BLOCK, NAME, Engine
from tests.vllm.live_chat import chat

pytestmark = pytest.mark.vllm

THINKING: dict[str, Any] = {"enable_thinking": True}
SILENT: dict[str, Any] = {"enable_thinking": False}
MANNERS: list[tuple[dict[str, Any], Client]] = [
    (THINKING, "faithful"),
    (THINKING, "reasoning-dropping"),
    (SILENT, "faithful"),
]


@pytest.mark.parametrize(("kwargs", "client"), MANNERS, ids=["thinking", "dropping", "silent"])
@pytest.mark.parametrize("scenario", [FOUR_TURNS, TOOL_LOOP], ids=lambda each: each.name)
@pytest.mark.parametrize("form", FORMS)
def test_every_turn_finds_the_predicted_tokens(
    engine: Engine,
    qwen3: Qwen3,
    form: str,
    scenario: Scenario,
    kwargs: dict[str, Any],
    client: Client,
) -> None:
    predicted = qwen3.predicted(form, scenario, kwargs, client)

    engine.forget()
    turns = list(chat(engine, predicted))

    assert len(turns) == 4
    requests = predicted.run.requests
    for turn, request, hit in zip(turns, requests, predicted.hits, strict=True):
        assert turn.served.prompt_ids == request.prompt_ids
        assert turn.served.prompt_ids + turn.served.completion_ids == request.stream_ids
        assert turn.served.cached == hit
        assert turn.moved.local_hits == hit
        assert turn.moved.local_queries == len(request.prompt_ids)


def test_only_the_patched_template_lets_a_hit_reach_into_the_answer(
    engine: Engine, qwen3: Qwen3
) -> None:
    def reaches(form: str) -> list[bool]:
        predicted = qwen3.predicted(form, FOUR_TURNS, THINKING, "faithful")
        engine.forget()
        turns = [turn.served for turn in chat(engine, predicted)]
        return [after.cached > len(before.prompt_ids) for before, after in pairwise(turns)]

    assert not any(reaches("published"))
    assert all(reaches("keep-reasoning"))


@pytest.mark.parametrize(
    ("scenario", "streaming"),
    [(FOUR_TURNS, False), (FOUR_TURNS, True), (TOOL_LOOP, False), (TOOL_LOOP, True)],
    ids=["four-turns", "four-turns-streaming", "tool-loop", "tool-loop-streaming"],
)
@pytest.mark.parametrize("form", ["published", "keep-reasoning"])
def test_verify_sees_what_was_predicted_beforehand(
    engine: Engine, qwen3: Qwen3, form: str, scenario: Scenario, streaming: bool
) -> None:
    predicted = qwen3.predicted(form, scenario, THINKING, "faithful")
    options = VerifyOptions(
        NAME,
        conversation=predicted.conversation(),
        streaming=streaming,
        extra_body={"chat_template": predicted.template},
    )

    verification = verify(f"http://127.0.0.1:{engine.port}", options)

    assert verification.fault is None
    assert verification.block_size == BLOCK
    (run,) = verification.runs
    assert [turn.prompt for turn in run.turns] == [
        len(r.prompt_ids) for r in predicted.run.requests
    ]
    assert [turn.cached for turn in run.turns] == predicted.hits
    assert [turn.local for turn in run.turns] == predicted.hits
    assert verification.agrees is True
    assert verification.preserving is (form == "keep-reasoning")
    # The hermes parser streams the newlines before the call as content, and whole it does not.
    lost_to = "parser" if streaming and scenario is TOOL_LOOP else None
    assert run.turns[1].lost_to == lost_to


@pytest.mark.parametrize(
    ("form", "row"),
    [
        ("published", {"template": "default", "mode": SILENT}),
        ("published", {"template": "default", "mode": THINKING, "replay": "reasoning"}),
        ("published", {"template": "default", "mode": THINKING, "replay": "nothing"}),
        ("lossless", {"template": "patched", "mode": SILENT}),
        ("keep-reasoning", {"template": "patched", "mode": THINKING, "replay": "reasoning"}),
    ],
    ids=["default-silent", "default-thinking", "default-dropping", "lossless", "keep-reasoning"],
)
def test_the_figures_are_those_on_record(
    engine: Engine, qwen3: Qwen3, form: str, row: dict[str, Any]
) -> None:
    (recorded,) = (each for each in GOLDEN["measured"] if row.items() <= each.items())
    client: Client = "reasoning-dropping" if row.get("replay") == "nothing" else "faithful"

    predicted = qwen3.predicted(form, FOUR_TURNS, row["mode"], client)
    engine.forget()
    turns = [turn.served for turn in chat(engine, predicted)]

    assert [len(turn.prompt_ids) for turn in turns] == recorded["prompt_tokens"]
    assert [len(turn.completion_ids) for turn in turns] == recorded["completion_tokens"]
    assert [turn.cached for turn in turns] == recorded["cached_tokens"]
