"""A whole check through a real render server, which the check starts and ends itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from templatefix.api import CheckOptions, ServerOptions, SourceOptions, check_target
from templatefix.findings.outcome import Report
from templatefix.serving.options import AUTO
from templatefix.serving.vllm_python import VARIABLE
from tests import packages
from tests.vllm.render_server import START_SECONDS, python_with_vllm, write_model

pytestmark = pytest.mark.vllm


@pytest.fixture(autouse=True)
def a_python_with_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, python_with_vllm())


def _through_vllm(target: Path, options: CheckOptions, *arguments: str) -> Report:
    server = ServerOptions(AUTO, arguments, timeout=120, start_timeout=2 * START_SECONDS)
    (checked,) = check_target(str(target), SourceOptions(offline=True), options, server=server)
    assert checked.fault is None, checked.fault
    return checked


def test_qwen3_comes_to_what_our_own_renderer_and_dialects_say(tmp_path: Path) -> None:
    write_model(tmp_path)
    template = packages.or_skip(packages.qwen3_template)
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    options = CheckOptions(full=True, reasoning_parser="qwen3", tool_call_parser="hermes")
    checked = _through_vllm(tmp_path, options)
    (ours,) = check_target(str(tmp_path), SourceOptions(offline=True), options)
    assert checked.renderer.startswith("vLLM 0.")
    theirs = replace(checked, renderer="jinja")
    assert theirs.findings == ours.findings
    assert theirs.runs == ours.runs
    assert theirs == ours
    assert {"TF101", "TF102", "TF301"} <= {finding.code for finding in checked.findings}
    assert len(checked.runs) > 20
