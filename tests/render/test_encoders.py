"""Libraries that render as vLLM's own code does: what they are given, and what a check makes of it.

The libraries are extras: where one is not installed, its tests are skipped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from templatefix.api import CheckOptions, SourceOptions, check_target
from templatefix.findings.outcome import Report
from templatefix.render.harmony_encoder import HarmonyEncoder
from templatefix.render.harmony_vocabulary import write_vocabulary
from templatefix.serving import vllm_python
from tests.corpus import corpus_directory
from tests.example import EXAMPLE

#: Of the file that harmony's code asks for; it refuses every other.
CHECKSUM = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
GPT_OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": "é"}'}}


@pytest.fixture(autouse=True)
def nowhere_a_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(vllm_python.VARIABLE, raising=False)
    monkeypatch.setattr(vllm_python, "has_vllm", lambda: False)
    monkeypatch.delenv("VLLM_SYSTEM_START_DATE", raising=False)


def gpt_oss_tokenizer() -> Path:
    corpus = corpus_directory()
    if corpus is None:
        pytest.skip("the corpus of tokenizers is not here")
    return corpus / "tokenizers" / "gpt-oss"


def checked(target: Path) -> Report:
    options = CheckOptions(full=True, max_examples=0)
    (report,) = check_target(str(target), SourceOptions(offline=True), options)
    assert report.fault is None, report.fault
    return report


def test_the_vocabulary_has_every_token_s_bytes_by_rank(tmp_path: Path) -> None:
    written = write_vocabulary(EXAMPLE / "tokenizer.json", tmp_path / "new")
    assert written == tmp_path / "new"
    lines = (written / "o200k_base.tiktoken").read_bytes().splitlines()
    ranks = json.loads((EXAMPLE / "tokenizer.json").read_bytes())["model"]["vocab"]
    assert [int(line.split()[1]) for line in lines] == sorted(ranks.values())
    spelled = {int(rank): base64.b64decode(text) for text, rank in map(bytes.split, lines)}
    assert spelled[ranks["a"]] == b"a"
    assert spelled[ranks["Ġ"]] == b" "
    assert spelled[ranks["Ċ"]] == b"\n"


@pytest.mark.corpus
def test_the_vocabulary_of_gpt_oss_is_the_one_that_is_asked_for(tmp_path: Path) -> None:
    written = write_vocabulary(gpt_oss_tokenizer() / "tokenizer.json", tmp_path)
    assert written is not None
    content = (written / "o200k_base.tiktoken").read_bytes()
    assert hashlib.sha256(content).hexdigest() == CHECKSUM


@pytest.mark.parametrize("content", ["", "[]", '{"model": {"vocab": []}}', '{"model": null}'])
def test_a_tokenizer_without_such_a_vocabulary_yields_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    assert write_vocabulary(tmp_path / "tokenizer.json", tmp_path / "new") is None


@pytest.fixture
def harmony() -> HarmonyEncoder:
    pytest.importorskip("openai_harmony", reason="the extra harmony is not installed")
    return HarmonyEncoder(gpt_oss_tokenizer() / "tokenizer.json")


@pytest.mark.corpus
def test_harmony_drops_the_analysis_before_the_last_final_answer(
    harmony: HarmonyEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_SYSTEM_START_DATE", "2020-02-02")
    answers: list[dict[str, Any]] = [
        {"role": "assistant", "reasoning": "first thought", "content": "first"},
        {"role": "user", "content": "second?"},
        {"role": "assistant", "reasoning": "second thought", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
    ]
    asked = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "first?"}]
    text = harmony.detokenize(harmony.render([*asked, *answers], None, {}))
    head, _, rest = text.partition("<|start|>developer<|message|>")
    assert "Current date: 2020-02-02" in head
    assert rest == (
        "# Instructions\n\nBe kind.<|end|><|start|>user<|message|>first?<|end|>"
        "<|start|>assistant<|channel|>final<|message|>first<|end|>"
        "<|start|>user<|message|>second?<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|>second thought<|end|>"
        "<|start|>assistant to=functions.look<|channel|>commentary json<|message|>"
        '{"at": "é"}<|call|>'
        "<|start|>functions.look to=assistant<|channel|>commentary<|message|>seen<|end|>"
        "<|start|>assistant"
    )


@pytest.mark.corpus
def test_a_check_of_gpt_oss_finds_the_dropped_analysis_and_the_date(
    harmony: HarmonyEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in gpt_oss_tokenizer().iterdir():
        shutil.copy(file, tmp_path / file.name)
    (tmp_path / "config.json").write_text(json.dumps(GPT_OSS))
    stops = {"eos_token_id": [200002, 199999, 200012]}
    (tmp_path / "generation_config.json").write_text(json.dumps(stops))
    report = checked(tmp_path)
    assert report.renderer.startswith("openai-harmony ")
    core = {run.id: run.preserving for run in report.runs if run.core}
    assert core["plain-chat/default/faithful/raw"] is True
    assert core["tool-loop/default/faithful/raw"] is True
    assert core["reasoning-chat/default/faithful/raw"] is False
    assert core["tool-loop-then-user/default/faithful/raw"] is False
    found = {each.code: each for each in report.findings}
    assert found["TF102"].severity == "error"
    assert found["TF102"].fix is None
    assert "no flag" in found["TF102"].explanation
    assert date.today().isoformat() in found["TF109"].message
    assert found["TF109"].fix is not None
    assert "VLLM_SYSTEM_START_DATE" in found["TF109"].fix.text
    assert found["TF501"].severity == "info"
    monkeypatch.setenv("VLLM_SYSTEM_START_DATE", "2020-02-02")
    assert "TF109" not in {each.code for each in checked(tmp_path).findings}


def test_a_check_of_mistral_s_files_finds_the_system_text_that_moves(tmp_path: Path) -> None:
    library = pytest.importorskip("mistral_common", reason="the extra mistral is not installed")
    (shipped,) = (Path(each) / "data" / "tekken_240911.json" for each in library.__path__)
    shutil.copy(shipped, tmp_path / "tekken.json")
    (tmp_path / "consolidated.safetensors").touch()
    report = checked(tmp_path)
    assert report.renderer.startswith("mistral-common ")
    core = {run.id: run for run in report.runs if run.core}
    assert core["plain-chat/default/faithful/raw"].preserving is False
    assert core["plain-chat-no-system/default/faithful/raw"].preserving is True
    assert core["tool-loop/default/faithful/raw"].preserving is True
    assert {run.completion for run in core.values()} <= {"training-view", "markers"}
    (broken,) = [each for each in report.findings if each.severity == "error"]
    assert broken.code == "TF107"
    assert broken.fix is not None
    assert "--tokenizer-mode hf" in broken.fix.text
