"""Models that vLLM renders with code of its own: what a check says of them without a vLLM."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from templatefix.api import CheckOptions, SourceOptions, check_target
from templatefix.cli.program import templatefix
from templatefix.errors import TargetError
from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report
from templatefix.serving import vllm_python
from tests.example import EXAMPLE

V4 = {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4"}
V32 = {"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32"}
GPT_OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
QUICK = CheckOptions(max_examples=0)


@pytest.fixture(autouse=True)
def nowhere_a_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(vllm_python.VARIABLE, raising=False)
    monkeypatch.setattr(vllm_python, "has_vllm", lambda: False)


def bare(directory: Path, config: dict[str, Any]) -> Path:
    """A directory with nothing but a model's configuration."""
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


def with_template(directory: Path, config: dict[str, Any]) -> Path:
    """The same with the example's template and tokenizer beside it."""
    shutil.copytree(EXAMPLE, bare(directory, config), dirs_exist_ok=True)
    return directory


def checked(target: Path, **source: Any) -> Report:
    (report,) = check_target(str(target), SourceOptions(offline=True, **source), QUICK)
    assert report.fault is None, report.fault
    return report


def tf501(report: Report) -> Finding:
    (finding,) = [each for each in report.findings if each.code == "TF501"]
    return finding


def fix(finding: Finding) -> str:
    assert finding.fix is not None
    return finding.fix.text


@pytest.mark.parametrize(
    ("config", "mode", "ways"),
    [
        (V4, "deepseek_v4", ('{"drop_thinking": false}', "--tokenizer-mode hf")),
        (V32, "deepseek_v32", ("--tokenizer-mode hf",)),
        (GPT_OSS, "harmony", ("VLLM_SYSTEM_START_DATE=",)),
    ],
)
def test_without_a_template_the_report_says_what_renders_and_what_can_be_done(
    config: dict[str, Any], mode: str, ways: tuple[str, ...], tmp_path: Path
) -> None:
    report = checked(bare(tmp_path / "model", config))
    assert report.verdict == "not-evaluated"
    finding = tf501(report)
    assert finding.severity == "warning"
    assert finding.detail == mode
    assert mode in finding.message
    assert all(way in fix(finding) for way in ways)
    assert ("--tokenizer-mode hf" in fix(finding)) == (mode != "harmony")
    assert ("no flag" in finding.message) == (mode == "harmony")
    assert "--server URL" in finding.explanation
    assert vllm_python.VARIABLE in finding.explanation
    (left_out,) = report.coverage.not_evaluated
    assert left_out.what == f"the renderer {mode}"


def test_mistrals_files_are_recognised_without_a_configuration(tmp_path: Path) -> None:
    for name in ("consolidated.safetensors", "tekken.json"):
        (tmp_path / name).write_text("{}")
    assert tf501(checked(tmp_path)).detail == "mistral"


def test_a_template_s_verdict_stands_but_is_said_not_to_apply(tmp_path: Path) -> None:
    report = checked(with_template(tmp_path / "model", V4))
    plain = checked(EXAMPLE)
    assert report.verdict == plain.verdict == "breaks"
    assert report.runs == plain.runs
    finding = tf501(report)
    assert finding.severity == "warning"
    assert "does not apply to vLLM" in finding.message
    assert {each.code for each in report.findings} == {
        "TF501",
        *(each.code for each in plain.findings),
    }


def test_findings_stay_in_the_order_of_their_gravity(tmp_path: Path) -> None:
    report = checked(with_template(tmp_path / "model", V4))
    graver = [each.severity for each in report.findings]
    assert graver == sorted(graver, key=["error", "warning", "info"].index)
    assert graver[0] == "error"


def test_a_template_that_is_named_is_what_the_user_asks_about(tmp_path: Path) -> None:
    model = with_template(tmp_path / "model", V4)
    template = str(model / "chat_template.jinja")
    for report in (checked(model, chat_template=template), checked(Path(template))):
        finding = tf501(report)
        assert finding.severity == "info"
        assert "only with --tokenizer-mode hf" in finding.message


def test_a_model_that_vllm_renders_with_jinja_has_no_such_finding(tmp_path: Path) -> None:
    model = with_template(tmp_path / "model", {"architectures": ["Qwen3ForCausalLM"]})
    assert "TF501" not in {each.code for each in checked(model).findings}
    (unusable,) = check_target(
        str(bare(tmp_path / "other", {"model_type": "qwen3"})), SourceOptions(offline=True), QUICK
    )
    assert unusable.fault is not None
    assert "holds no chat template" in unusable.fault.message


def test_a_ready_template_is_named_by_the_models_that_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = "{#-\n  Ready template theirs, for templatefix: a test.\n\n  serves: maker/Model-V4\n"
    header += (
        "  reference: maker/Model-V4\n  templatefix-policy: keep-reasoning\n  change: none.\n-#}\n"
    )
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "theirs.jinja").write_text(header + "{{ messages }}", encoding="utf-8")
    monkeypatch.setattr("templatefix.ready.shelf.directory", lambda: shelf)
    served = tf501(checked(bare(tmp_path / "model-v4", V4)))
    assert "templatefix ready path theirs" in fix(served)
    other = tf501(checked(bare(tmp_path / "other", V4)))
    assert "ready path" not in fix(other)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 1), (("--fail-on", "error"), 0), (("--ignore", "TF501"), 0)],
)
def test_what_could_not_be_checked_is_no_success_unless_it_is_accepted(
    arguments: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    model = bare(tmp_path / "model", V4)
    ended = CliRunner().invoke(
        templatefix, ["check", str(model), "--offline", "--isolated", *arguments]
    )
    assert ended.exit_code == code
    assert ("TF501 not-rendered-by-jinja" in ended.stdout) == ("--ignore" not in arguments)
    assert "not evaluated" in ended.stdout


def test_a_folder_named_vllm_is_no_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = vllm_python.has_vllm()
    (tmp_path / "vllm").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert vllm_python.has_vllm() == before
    # ... nor for the Python that is named.
    monkeypatch.setattr(vllm_python, "has_vllm", lambda: False)
    monkeypatch.setenv(vllm_python.VARIABLE, sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if not before:
        with pytest.raises(TargetError, match="has no vLLM"):
            vllm_python.find_vllm()
