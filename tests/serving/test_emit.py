"""What is printed is what a shell and YAML read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.serving import emit
from templatefix.serving.assemble import Served, ServeOptions, serving
from templatefix.serving.choices import CONNECTORS
from templatefix.serving.connectors import Storage
from templatefix.serving.plan import Serving, Warned

ODD = 'it\'s a $HOME `dir` "x" \\ é.jinja'
KWARGS = {"enable_thinking": False, "note": 'it\'s $5 \\ "x"', "n": 1e22, "none": None, "l": [1]}
EVERY = [
    Storage(connector, role, store_tp_size=size)
    for connector in CONNECTORS
    for role, size in (
        (("both", None), ("consumer", 4)) if connector == "mooncake-store" else (("both", None),)
    )
]


def plan_of(storage: Storage, kwargs: dict[str, Any] | None = None) -> Serving:
    served = Served("dir/a b", ODD, inferred=("qwen3", "hermes"))
    return serving(served, ServeOptions(KWARGS if kwargs is None else kwargs, storage=storage))


def run_in_shell(script: str, directory: Path) -> tuple[list[str], dict[str, str]]:
    """The words after ``vllm`` that a shell makes of a script, and the environment they get."""
    stub = directory / "bin" / "vllm"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\" > words\nenv -0 > environment\n")
    stub.chmod(0o755)
    path = f"{stub.parent}:/usr/bin:/bin"
    subprocess.run(["sh", "-euc", script], cwd=directory, env={"PATH": path}, check=True)
    environment = (directory / "environment").read_text("utf-8").split("\0")
    words = (directory / "words").read_text("utf-8").split("\0")
    return words[:-1], dict(each.split("=", 1) for each in environment if each)


@pytest.mark.parametrize("storage", EVERY, ids=str)
def test_a_shell_runs_the_text(storage: Storage, tmp_path: Path) -> None:
    plan = plan_of(storage)
    words, environment = run_in_shell(emit.text(plan), tmp_path)
    assert ("vllm", *words) == plan.words
    assert plan.environment.items() <= environment.items()
    for file in plan.files:
        assert (tmp_path / file.name).read_text() == file.text


def test_the_text_replaces_no_file(tmp_path: Path) -> None:
    (tmp_path / "mooncake.json").write_text("mine")
    run_in_shell(emit.text(plan_of(Storage("mooncake-store"))), tmp_path)
    assert (tmp_path / "mooncake.json").read_text() == "mine"


@pytest.mark.parametrize("storage", EVERY, ids=str)
def test_a_shell_reads_the_variables(storage: Storage, tmp_path: Path) -> None:
    plan = plan_of(storage)
    (tmp_path / "serve.env").write_text(emit.variables(plan), "utf-8")
    script = 'set -a; . ./serve.env; eval "exec vllm serve $SERVE_ARGS"'
    assert script.replace("serve.env", "FILE") in emit.variables(plan)
    words, environment = run_in_shell(script, tmp_path)
    assert ("vllm", *words) == plan.words
    assert plan.environment.items() <= environment.items()


def test_variables_are_one_line_each_and_vllm_is_not_told_one_that_it_does_not_know() -> None:
    printed = emit.variables(plan_of(Storage("mooncake-store", "consumer")))
    lines = [line for line in printed.splitlines() if not line.startswith("#")]
    assert [line.split("=")[0] for line in lines] == ["MOONCAKE_CONFIG_PATH", "SERVE_ARGS"]


def words_of_yaml(text: str) -> list[str]:
    """The words that vLLM makes of a file for ``--config``."""
    yaml: Any = pytest.importorskip("yaml")
    words = []
    for name, value in yaml.safe_load(text).items():
        words.append(f"--{name}")
        if value is not True:
            words.append(json.dumps(value) if isinstance(value, dict) else str(value))
    return words


@pytest.mark.parametrize("storage", EVERY, ids=str)
def test_yaml_is_the_same_command(storage: Storage) -> None:
    plan = plan_of(storage)
    read = words_of_yaml(emit.config(plan))
    assert read[:2] == ["--model", plan.model]
    assert [_value(word) for word in read[2:]] == [_value(word) for word in plan.words[3:]]


def _value(word: str) -> Any:
    return json.loads(word) if word.startswith("{") else word


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        [
            "yes",
            "no",
            "on",
            "null",
            "1e3",
            "1_000",
            "0x1",
            "~",
            "2001-01-01",
            "a: b",
            "- a",
            "#x",
            "",
            " x",
            "=",
            "<<",
            "1:30",
            "%x",
            "@x",
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), json_values, min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_yaml_gives_every_kwarg_back_as_it_was(kwargs: dict[str, Any]) -> None:
    words = words_of_yaml(emit.config(plan_of(Storage(), kwargs)))
    assert json.loads(words[words.index("--default-chat-template-kwargs") + 1]) == kwargs


@given(st.dictionaries(st.text(min_size=1), json_values, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_command_carries_kwargs_without_a_character_that_a_terminal_must_not_see(
    kwargs: dict[str, Any],
) -> None:
    plan = plan_of(Storage(), kwargs)
    assert emit.unprintable(plan) is None
    words = plan.words
    assert json.loads(words[words.index("--default-chat-template-kwargs") + 1]) == kwargs


def test_a_word_that_a_terminal_must_not_see_is_found() -> None:
    plan = serving(Served("a\x1b[2Jb"), ServeOptions())
    assert emit.unprintable(plan) == "a\x1b[2Jb"


def test_the_document_holds_the_command_in_words_and_as_a_line() -> None:
    plan = plan_of(Storage("mooncake-store"))
    told = json.loads(emit.document(plan, "9.9"))
    assert tuple(told["command"]) == plan.words
    assert told["flags"]["--enable-auto-tool-choice"] is True
    assert told["flags"]["--kv-transfer-config"]["kv_connector"] == "MooncakeStoreConnector"
    assert told["shell"] == emit.one_line(plan)
    assert told["environment"] == {"MOONCAKE_CONFIG_PATH": "mooncake.json"}
    assert [each["name"] for each in told["files"]] == ["mooncake.json"]
    assert told["beside"][0]["command"][0] == "mooncake_master"
    assert told["vllm"] == {"written_for": ["0.32", "0.33"], "checked_with": "0.32.0"}
    assert (told["renderer"], told["verdict"]) == ("jinja", None)


def test_ways_out_keep_their_line_and_reasons_are_wrapped() -> None:
    way = "templatefix patch " + "x" * 150
    plan = Serving("m", (), warnings=(Warned("k", "word " * 50, (way, "b")),), notes=("n\x1b",))
    printed = emit.advice(plan).splitlines()
    assert printed[0].startswith("warning: word")
    assert all(len(line) <= 100 for line in printed if "templatefix" not in line)
    assert printed[-3:] == [f"  instead: {way}", "  or: b", "note: n\\x1b"]
    assert "note" not in emit.advice(plan, notes=False)
