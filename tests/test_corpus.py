"""What the check says of real templates."""

from __future__ import annotations

import pytest

from tests.reports import corpus_model_ids, corpus_report

pytestmark = pytest.mark.corpus


def _codes(model_id: str, scenario: str | None = None) -> set[str]:
    return {
        finding.code
        for finding in corpus_report(model_id).findings
        if scenario is None or any(run.startswith(f"{scenario}/") for run in finding.run_ids)
    }


def test_every_template_ends_in_acorpus_report() -> None:
    reports = [corpus_report(model_id) for model_id in corpus_model_ids()]
    assert len(reports) == 100
    assert all(report.fault is None for report in reports)
    evaluated = [report for report in reports if report.verdict != "not-evaluated"]
    assert len(evaluated) >= 98


def test_qwen3_drops_the_empty_block_and_the_reasoning() -> None:
    report = corpus_report("Qwen/Qwen3-8B")
    assert report.verdict == "breaks"
    by_code = {finding.code: finding for finding in report.findings}
    assert dict(by_code["TF101"].kwargs) == {"enable_thinking": False}
    assert dict(by_code["TF102"].kwargs) == {}
    assert by_code["TF102"].turn == 2
    assert (by_code["TF102"].lost_here or 0) > 0


@pytest.mark.parametrize(
    "model_id",
    [
        "Qwen/Qwen2.5-7B-Instruct",
        "Qwen/Qwen3-4B-Instruct-2507",
        "microsoft/phi-4",
        "HuggingFaceH4/zephyr-7b-beta",
    ],
)
def test_a_clean_template_stays_clean(model_id: str) -> None:
    assert corpus_report(model_id).verdict == "preserving"
    assert not {code for code in _codes(model_id, "plain-chat") if code.startswith("TF10")}
    assert all(finding.severity == "info" for finding in corpus_report(model_id).findings)


def test_qwen3_thinking_2507_drops_reasoning_and_its_opener() -> None:
    findings = {f.code: f for f in corpus_report("Qwen/Qwen3-4B-Thinking-2507").findings}
    assert findings["TF102"].detail == "opener-too"


def test_deepseek_r1_drops_reasoning_and_crashes_on_dict_arguments() -> None:
    assert {"TF102", "TF203"} <= _codes("deepseek-ai/DeepSeek-R1")


@pytest.mark.parametrize("model_id", ["deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2.5"])
def test_a_call_with_empty_content_is_lost(model_id: str) -> None:
    assert "TF202" in _codes(model_id, "tool-loop")


def test_mistral_v03_moves_the_system_message() -> None:
    assert "TF107" in _codes("mistralai/Mistral-7B-Instruct-v0.3", "plain-chat")


def test_llama3_trims_content() -> None:
    findings = {f.code: f for f in corpus_report("unsloth/llama-3-8b-Instruct").findings}
    assert findings["TF104"].severity == "warning"
    assert findings["TF104"].scenario == "whitespace"
    assert corpus_report("unsloth/llama-3-8b-Instruct").verdict == "preserving"


def test_gpt_oss_ends_history_with_another_stop_token_at_no_cost() -> None:
    findings = {f.code: f for f in corpus_report("openai/gpt-oss-20b").findings}
    assert findings["TF105"].lost_tokens == 0
    assert findings["TF105"].severity == "info"


@pytest.mark.parametrize(
    "model_id",
    [
        "unsloth/llama-2-7b-chat",
        "mistralai/Mistral-7B-Instruct-v0.2",
        "microsoft/Phi-3-mini-4k-instruct",
    ],
)
def test_sentencepiece_tokenizers_show_no_false_seam(model_id: str) -> None:
    assert "TF108" not in _codes(model_id)


@pytest.mark.parametrize(
    "model_id", ["unsloth/llama-2-7b-chat", "microsoft/Phi-3-mini-4k-instruct"]
)
def test_old_formats_without_reasoning_are_preserving(model_id: str) -> None:
    assert corpus_report(model_id).verdict == "preserving"


def test_a_space_that_the_server_hands_on_is_printed_twice() -> None:
    assert "TF104" in _codes("mistralai/Mistral-7B-Instruct-v0.2")


def test_gemma2_refuses_a_system_message_and_does_not_crash() -> None:
    report = corpus_report("unsloth/gemma-2-9b-it")
    codes = {finding.code: finding for finding in report.findings}
    assert "TF203" not in codes
    assert codes["TF206"].severity == "info"
    assert any("refuses" in entry.why for entry in report.coverage.not_evaluated)


def test_a_kwarg_that_repairs_is_offered() -> None:
    findings = {f.code: f for f in corpus_report("Qwen/Qwen3.6-35B-A3B").findings}
    fix = findings["TF102"].fix
    assert fix is not None
    assert '{"preserve_thinking": true}' in fix.text


def test_figures_of_a_run_are_consistent() -> None:
    for model_id in corpus_model_ids():
        for run in corpus_report(model_id).runs:
            for row in run.turns:
                if row.reuse_tokens is None:
                    assert row.turn == 1
                    continue
                assert row.hit_tokens is not None
                assert row.ideal_tokens is not None
                assert row.previous_stream_tokens is not None
                assert row.hit_tokens <= row.reuse_tokens
                assert row.hit_tokens <= row.ideal_tokens < row.prompt_tokens
                assert row.ideal_tokens < row.previous_stream_tokens
                assert row.hit_tokens % 16 == 0
