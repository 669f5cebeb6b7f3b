"""Models that vLLM renders with code of its own, each checked by that code, unasked."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from templatefix.api import CheckOptions, SourceOptions, check_target
from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report
from templatefix.serving.vllm_python import VARIABLE
from tests.corpus import corpus_directory
from tests.vllm.render_server import python_with_vllm

# Several servers and imports of vLLM: minutes that every run cannot spare.
pytestmark = [pytest.mark.vllm, pytest.mark.nightly]

#: Where Mistral's own library keeps the tokenizers that it ships.
_SHIPPED = "import mistral_common; print(mistral_common.__path__[0])"


@pytest.fixture(autouse=True)
def a_python_with_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, python_with_vllm())
    monkeypatch.delenv("VLLM_SYSTEM_START_DATE", raising=False)


def _model(directory: Path, tokenizer: str, config: dict[str, Any]) -> Path:
    corpus = corpus_directory()
    if corpus is None:
        pytest.skip("the corpus of tokenizers is not here")
    for file in (corpus / "tokenizers" / tokenizer).iterdir():
        shutil.copy(file, directory / file.name)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


def _checked(target: Path) -> Report:
    options = CheckOptions(full=True, max_examples=0)
    (checked,) = check_target(str(target), SourceOptions(offline=True), options)
    assert checked.fault is None, checked.fault
    assert [each.severity for each in checked.findings if each.code == "TF501"] == ["info"]
    return checked


def _core(checked: Report) -> dict[str, bool | None]:
    return {run.id: run.preserving for run in checked.runs if run.core}


def _errors(checked: Report) -> dict[str, Finding]:
    return {each.code: each for each in checked.findings if each.severity == "error"}


def _fix(finding: Finding) -> str:
    assert finding.fix is not None, finding
    return finding.fix.text


def test_deepseek_v4_keeps_its_reasoning_when_it_is_told_to_or_has_tools(tmp_path: Path) -> None:
    config = {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "quantization_config": {"quant_method": "fp8"},
    }
    checked = _checked(_model(tmp_path, "deepseek-v4", config))
    core = {run.id: run for run in checked.runs if run.core}

    assert checked.renderer.startswith("deepseek_v4 of vLLM 0.")
    assert checked.verdict == "breaks"
    assert core["reasoning-chat/default/faithful/raw"].preserving is False
    assert core["reasoning-chat/drop_thinking=false/faithful/raw"].preserving is True
    assert core["plain-chat/thinking=false/faithful/raw"].preserving is True
    with_tools = [run for run in core.values() if "tool" in run.scenario]
    assert {run.scenario for run in with_tools} >= {"tool-rounds", "tool-loop-then-user"}
    assert all(run.preserving for run in with_tools)
    assert {run.completion for run in core.values()} == {"training-view"}

    errors = _errors(checked)
    assert set(errors) == {"TF102"}
    finding = errors["TF102"]
    assert finding.locations == ()
    assert finding.divergence is not None
    assert finding.divergence.stream.text.startswith("think>")
    assert finding.divergence.prompt.text.startswith("/think>")
    assert '{"drop_thinking": false}' in _fix(finding)
    others = {each.code: each for each in checked.findings}
    assert "TF103" in others  # where the client sends its reasoning inside the content
    # An effort other than the default's puts other words before the first message.
    assert others["TF404"].detail == "reasoning_effort"
    assert others["TF404"].severity == "info"
    ways = _fix(others["TF501"])
    assert '{"drop_thinking": false}' in ways
    assert "--tokenizer-mode hf" in ways
    alike = {each.what: each.why for each in checked.coverage.not_evaluated}
    assert alike["kwargs enable_thinking=false"] == "renders as thinking=false does"


def test_deepseek_v41_does_as_v4_does(tmp_path: Path) -> None:
    config = {
        "architectures": ["DeepseekV41ForCausalLM"],
        "model_type": "deepseek_v4",
        "quantization_config": {"quant_method": "fp8"},
    }
    checked = _checked(_model(tmp_path, "deepseek-v4", config))
    core = _core(checked)
    assert checked.renderer.startswith("deepseek_v41 of vLLM 0.")
    assert checked.verdict == "breaks"
    assert core["reasoning-chat/default/faithful/raw"] is False
    assert core["reasoning-chat/drop_thinking=false/faithful/raw"] is True
    errors = _errors(checked)
    assert set(errors) == {"TF102"}
    assert '{"drop_thinking": false}' in _fix(errors["TF102"])
    heads = {each.detail for each in checked.findings if each.code == "TF404"}
    assert "reasoning_effort" in heads


def test_deepseek_v32_drops_reasoning_at_every_question_whatever_it_is_told(tmp_path: Path) -> None:
    # Of the vocabulary only the special tokens matter, which both versions spell alike.
    config = {"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32"}
    checked = _checked(_model(tmp_path, "deepseek-v4", config))
    assert checked.verdict == "breaks"
    core = _core(checked)
    assert core["plain-chat/default/faithful/raw"] is True
    assert core["tool-loop-then-user/default/faithful/raw"] is True
    assert core["reasoning-chat/thinking=true/faithful/raw"] is False
    assert core["tool-loop/thinking=true/faithful/raw"] is True
    # Tools do not keep it, as they do for V4.
    assert core["tool-loop-then-user/thinking=true/faithful/raw"] is False
    assert set(_errors(checked)) == {"TF102"}
    assert "--tokenizer-mode hf" in _fix(_errors(checked)["TF102"])
    ineffective = {each.what for each in checked.coverage.not_evaluated}
    assert "kwarg drop_thinking" in ineffective


def test_harmony_drops_analysis_and_prints_the_day(tmp_path: Path) -> None:
    config = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
    model = _model(tmp_path, "gpt-oss", config)
    stops = {"eos_token_id": [200002, 199999, 200012]}
    (model / "generation_config.json").write_text(json.dumps(stops), encoding="utf-8")
    checked = _checked(model)
    assert checked.renderer.startswith("harmony of vLLM 0.")
    core = _core(checked)
    assert core["plain-chat/default/faithful/raw"] is True
    assert core["tool-loop/default/faithful/raw"] is True
    assert core["reasoning-chat/default/faithful/raw"] is False
    assert core["tool-loop-then-user/default/faithful/raw"] is False
    found = {each.code: each for each in checked.findings}
    assert found["TF102"].severity == "error"
    assert found["TF102"].fix is None
    assert date.today().isoformat() in found["TF109"].message
    assert "VLLM_SYSTEM_START_DATE" in _fix(found["TF109"])


def test_mistral_s_code_moves_the_system_text(tmp_path: Path) -> None:
    ran = subprocess.run(
        [python_with_vllm(), "-c", _SHIPPED], capture_output=True, text=True, check=True
    )
    shutil.copy(Path(ran.stdout.strip()) / "data" / "tekken_240911.json", tmp_path / "tekken.json")
    (tmp_path / "consolidated.safetensors").touch()
    checked = _checked(tmp_path)
    assert checked.renderer.startswith("mistral of vLLM 0.")
    core = _core(checked)
    assert core["plain-chat/default/faithful/raw"] is False
    assert core["plain-chat-no-system/default/faithful/raw"] is True
    assert "TF107" in _errors(checked)
    assert "--tokenizer-mode hf" in _fix(_errors(checked)["TF107"])
