"""LMCache behind an engine: the same as with Mooncake, through another store and another connector.

``TEMPLATEFIX_LMCACHE`` names a directory with lmcache, beside what vLLM's Python has;
``.ci/nightly`` makes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.vllm.chats import LONG_ANSWERS, Qwen3, addressed
from tests.vllm.engine import Engine, serving
from tests.vllm.live_chat import chat
from tests.vllm.namespace import Namespace
from tests.vllm.render_server import python_with_vllm
from tests.vllm.stores import lmcache

pytestmark = [pytest.mark.vllm, pytest.mark.nightly]


@pytest.fixture(scope="module", params=[False, True], ids=["prompts-only", "write-back"])
def stored(
    request: pytest.FixtureRequest,
    namespace: Namespace,
    model: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Engine, bool]]:
    """An engine with LMCache, and whether that holds answers."""
    packages = os.environ.get("TEMPLATEFIX_LMCACHE")
    if packages is None:
        pytest.skip("no LMCache: TEMPLATEFIX_LMCACHE names no directory with it (.ci/nightly does)")
    python = python_with_vllm()
    home = tmp_path_factory.mktemp("lmcache")
    with (
        lmcache(python, Path(packages), home, namespace, write_back=request.param) as setting,
        serving(python, model, home, setting) as engine,
    ):
        yield engine, request.param


@pytest.mark.parametrize("form", ["published", "lossless"])
def test_a_hit_enters_the_answer_only_with_both(
    stored: tuple[Engine, bool], qwen3: Qwen3, form: str
) -> None:
    engine, write_back = stored
    scenario = addressed(LONG_ANSWERS, form)
    predicted = qwen3.predicted(form, scenario, {"enable_thinking": False}, "faithful")

    engine.forget()
    turns = list(chat(engine, predicted, forgetful=True))

    assert [turn.moved.local_hits for turn in turns] == [0, 0, 0, 0]
    expected = predicted.hits if write_back else predicted.hits_of_prompts_alone()
    assert [turn.moved.external_hits for turn in turns] == expected
    entered = [
        after.moved.external_hits > len(before.served.prompt_ids)
        for before, after in pairwise(turns)
    ]
    assert entered == [write_back and form == "lossless"] * 3
