"""Cache hits enter the previous answer only with decode write-back and a patched template.

An engine with a Mooncake Store behind it loses its own cache after every turn, as it does when
another instance takes the next one, or when the turns are far apart. What the next prompt finds,
it finds in the store.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.vllm.chats import LONG_ANSWERS, Predicted, Qwen3
from tests.vllm.engine import NAME, Engine, serving
from tests.vllm.live_chat import chat
from tests.vllm.namespace import Namespace
from tests.vllm.render_server import python_with_vllm
from tests.vllm.stores import has_mooncake, mooncake

pytestmark = pytest.mark.vllm

SILENT = {"enable_thinking": False}


@pytest.fixture(scope="module", params=[False, True], ids=["prompts-only", "write-back"])
def stored(
    request: pytest.FixtureRequest,
    namespace: Namespace,
    model: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Engine, bool]]:
    """An engine with a store, and whether the store holds answers."""
    python = python_with_vllm()
    if (why_not := has_mooncake(python)) is not None:
        pytest.skip(why_not)
    home = tmp_path_factory.mktemp("mooncake")
    with (
        mooncake(python, home, namespace, write_back=request.param) as setting,
        serving(python, model, home, setting) as engine,
    ):
        yield engine, request.param


def _expected(predicted: Predicted, write_back: bool) -> list[int]:
    return predicted.hits if write_back else predicted.hits_of_prompts_alone()


@pytest.mark.parametrize("form", ["published", "lossless"])
def test_a_hit_enters_the_answer_only_with_both(
    stored: tuple[Engine, bool], qwen3: Qwen3, form: str
) -> None:
    engine, write_back = stored
    predicted = qwen3.predicted(form, LONG_ANSWERS, SILENT, "faithful")

    engine.forget(store=True)
    turns = list(chat(engine, predicted, forgetful=True))

    assert [turn.moved.local_hits for turn in turns] == [0, 0, 0, 0]
    assert [turn.moved.external_hits for turn in turns] == _expected(predicted, write_back)
    assert [turn.served.cached for turn in turns] == _expected(predicted, write_back)
    entered = [
        after.moved.external_hits > len(before.served.prompt_ids)
        for before, after in pairwise(turns)
    ]
    assert entered == [write_back and form == "lossless"] * 3


@pytest.mark.parametrize(
    ("form", "client", "enters"),
    [
        ("published", "faithful", False),
        ("lossless", "faithful", False),
        ("keep-reasoning", "faithful", True),
        ("keep-reasoning", "reasoning-dropping", False),
    ],
)
def test_reasoning_is_found_again_where_it_is_kept_and_replayed(
    stored: tuple[Engine, bool], qwen3: Qwen3, form: str, client: str, enters: bool
) -> None:
    engine, write_back = stored
    predicted = qwen3.predicted(form, LONG_ANSWERS, {}, client)  # type: ignore[arg-type]

    engine.forget(store=True)
    turns = list(chat(engine, predicted, forgetful=True))

    assert [turn.moved.external_hits for turn in turns] == _expected(predicted, write_back)
    entered = [
        after.moved.external_hits > len(before.served.prompt_ids)
        for before, after in pairwise(turns)
    ]
    assert entered == [write_back and enters] * 3


@pytest.mark.parametrize("form", ["published", "lossless"])
def test_the_verify_command_tells_the_two_by_two(
    stored: tuple[Engine, bool], namespace: Namespace, qwen3: Qwen3, form: str, tmp_path: Path
) -> None:
    engine, write_back = stored
    predicted = qwen3.predicted(form, LONG_ANSWERS, SILENT, "faithful")
    conversation = tmp_path / "conversation.json"
    conversation.write_text(json.dumps(predicted.conversation()), encoding="utf-8")
    command = [sys.executable, "-m", "templatefix", "verify", f"http://127.0.0.1:{engine.port}"]
    command += ["--model", NAME, "--conversation", str(conversation), "--output-format", "json"]
    command += ["--extra-body", json.dumps({"chat_template": predicted.template})]
    command += ["--reset-local-cache", "--write-back" if write_back else "--no-write-back"]

    ran = subprocess.run(namespace.command(command), capture_output=True, text=True)

    assert ran.returncode == (form == "published"), ran.stderr
    verification = json.loads(ran.stdout)
    (run,) = verification["runs"]
    expected = _expected(predicted, write_back)
    assert [turn["external"] for turn in run["turns"]] == expected
    assert [turn["local"] for turn in run["turns"]] == [0, 0, 0, 0]
    assert verification["agrees"] is True
    assert verification["preserving"] is (form == "lossless")
