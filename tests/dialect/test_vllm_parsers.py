"""The named dialects against vLLM's own parsers, run in a Python that has vLLM.

``tools/vllm_venv.sh`` makes that Python; ``TEMPLATEFIX_VLLM_PYTHON`` names another. Every case goes
through the code behind the server's ``derender``, with the parsers composed as a server composes
them, on a real tokenizer to which the markers of the format are added where it lacks them.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from templatefix.chat.answer import Answer, ToolCall
from tests.corpus import corpus_directory
from tests.dialect.pairs import PAIRS, dialects_of, kept, meant
from tests.dialect.vllm_cases import (
    MORE,
    NOT_STREAMED,
    Case,
    Pair,
    cases_of,
    round_trips,
)
from tests.dialect.vllm_side import ANSWERS

pytestmark = pytest.mark.vllm

SIDE = Path(__file__).with_name("vllm_side.py")
REPOSITORY = Path(__file__).parents[2]


def _trips(pair: Pair) -> list[tuple[Answer, Case]]:
    """Answers there and back; one of the longest as a stream, which takes a hundred times as
    long."""
    trips = round_trips(pair)
    if NOT_STREAMED & set(pair):
        return trips
    answer, case = max(trips[-6:], key=lambda trip: len(trip[1].completion))
    return [*trips, (answer, replace(case, way="stream"))]


def _asked(pair: Pair) -> list[Case]:
    return [*cases_of(pair), *(case for _, case in _trips(pair) if pair in PAIRS)]


@cache
def answers() -> dict[Pair, dict[Case, Any]]:
    """vLLM's answer to every case, in one run: starting it takes longer than asking it."""
    python = os.environ.get("TEMPLATEFIX_VLLM_PYTHON", "/opt/vllm-venv/bin/python")
    if not Path(python).exists():
        pytest.skip(f"no Python with vLLM at {python} (tools/vllm_venv.sh makes one)")
    corpus = corpus_directory()
    if corpus is None:
        pytest.skip("the corpus of tokenizers is not here")
    cases = [case for pair in (*PAIRS, *MORE) for case in _asked(pair)]
    jobs = json.dumps([case.job(corpus / "tokenizers") for case in cases])
    run = subprocess.run(
        [python, str(SIDE)],
        input=jobs,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert ANSWERS in run.stdout, run.stderr[-2000:]
    found: dict[Pair, dict[Case, Any]] = {}
    answered = json.loads(run.stdout.partition(ANSWERS)[2])
    for case, answer in zip(cases, answered, strict=True):
        found.setdefault(case.pair, {})[case] = _answer(answer)
    return found


def _answer(found: dict[str, Any]) -> Answer | str:
    """The answer, or what the parser died of."""
    if "error" in found:
        return str(found["error"])
    calls = tuple(ToolCall(name, arguments) for name, arguments in found["tool_calls"])
    return Answer(found["reasoning"], found["content"], calls)


@pytest.mark.parametrize("pair", [*PAIRS, *MORE], ids=str)
def test_answers_are_vllms_own(pair: Pair) -> None:
    asked = answers()[pair]
    wrong = [case for case, theirs in asked.items() if theirs != case.ours()]
    assert not wrong, (
        "\n".join(f"{case}\n  vLLM: {asked[case]}\n  ours: {case.ours()}" for case in wrong[:5])
        + f"\n{len(wrong)} of {len(asked)}"
    )


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_vllm_gives_back_the_answer_up_to_what_we_say_is_lost(pair: Pair) -> None:
    theirs = answers()[pair]
    reasoning, tool = dialects_of(pair)
    trips = _trips(pair)
    assert len({case.completion for _, case in trips}) >= 15
    for answer, case in trips:
        got = theirs[case]
        assert isinstance(got, Answer), got
        back, sent = (
            meant(kept(each, reasoning, tool, case.streaming), tool) for each in (got, answer)
        )
        assert back == sent, case
