"""Targets in, reports out: what a user can cause is a report, never an exception."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from templatefix import api
from templatefix.api import CheckOptions, SourceOptions, check_target
from templatefix.findings.outcome import Report
from templatefix.findings.repair import RepairReport, RepairStatus
from templatefix.patching.repair import PatchOptions
from templatefix.policy import HEADER, policy_of
from templatefix.source import ChatTemplate
from tests.example import EXAMPLE
from tests.subjects import APPENDS, branches

OFFLINE = SourceOptions(offline=True)
_DROPS = branches(
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if loop.last and message.reasoning_content is defined %}"
    "{{- '<think>' + message.reasoning_content + '</think>' }}{% endif %}"
    "{{- message.content + '<|im_end|>\\n' }}"
)
_HEADED = "{#- patched\n" + HEADER.format(policy="lossless") + "\n-#}" + _DROPS


def _written(directory: Path, text: str, name: str = "t.jinja") -> str:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def _only(target: str, options: CheckOptions | None = None, alone: bool = True) -> Report:
    (checked,) = check_target(target, OFFLINE, options or CheckOptions(), alone=alone)
    return checked


def _severity(checked: Report) -> str:
    return next(f.severity for f in checked.findings if f.code == "TF102")


def test_a_template_file_is_checked_with_the_stand_in_tokenizer(tmp_path: Path) -> None:
    checked = _only(_written(tmp_path, APPENDS))
    assert checked.verdict == "preserving"
    assert checked.tokenizer_approximate
    assert checked.source == APPENDS


def test_the_shipped_example_is_checked_with_its_own_tokenizer() -> None:
    checked = _only(str(EXAMPLE))
    assert checked.verdict == "breaks"
    assert not checked.tokenizer_approximate


def test_a_patched_file_is_judged_by_the_policy_in_its_header(tmp_path: Path) -> None:
    target = _written(tmp_path, _HEADED)
    assert policy_of(_HEADED) == "lossless"
    assert _only(target).policy == "lossless"
    assert _severity(_only(target)) == "info"


def test_a_policy_that_is_asked_for_beats_the_header(tmp_path: Path) -> None:
    checked = _only(_written(tmp_path, _HEADED), CheckOptions(policy="keep-reasoning"))
    assert checked.policy == "keep-reasoning"
    assert _severity(checked) == "error"


@pytest.mark.parametrize(
    "text",
    [
        "{# templatefix-policy: frugal #}" + APPENDS,
        APPENDS + "{# templatefix-policy: lossless #}",
        "{# a templatefix-policy: lossless #}" + APPENDS,
        "templatefix-policy: lossless" + APPENDS,
    ],
)
def test_what_is_no_header_records_no_policy(text: str) -> None:
    assert policy_of(text) is None


def test_a_page_that_is_no_chat_template_is_an_error_only_when_named_alone(tmp_path: Path) -> None:
    target = _written(tmp_path, "<h1>{{ title }}</h1>")
    alone = _only(target)
    assert alone.verdict == "error"
    assert alone.fault is not None
    assert alone.fault.code == "TF901"
    among = _only(target, alone=False)
    assert among.verdict == "not-evaluated"
    assert among.fault is None
    assert "never reads messages" in (among.skipped or "")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.jinja", None),
        ("broken.json", b"{"),
        ("list.json", b"[1]"),
        ("bad.jinja", b"\xff\xfe{{ messages }}"),
        ("short.gguf", b"GGUF\x03"),
        ("empty", "directory"),
    ],
)
def test_a_target_that_cannot_be_had_is_a_report_that_names_it(
    tmp_path: Path, name: str, content: bytes | str | None
) -> None:
    path = tmp_path / name
    if content == "directory":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    checked = _only(str(path))
    assert checked.verdict == "error"
    assert checked.fault is not None
    assert checked.fault.code == "TF901"
    assert checked.fault.hint
    assert name in checked.target


def test_a_parser_without_a_dialect_is_a_report_that_lists_the_known_ones(tmp_path: Path) -> None:
    checked = _only(_written(tmp_path, APPENDS), CheckOptions(reasoning_parser="nope"))
    assert checked.fault is not None
    assert "qwen3" in checked.fault.hint


def test_every_template_of_a_directory_gets_its_report(tmp_path: Path) -> None:
    _written(tmp_path, APPENDS, "a.jinja")
    _written(tmp_path, "{% for m in messages %}", "b.jinja")
    _written(tmp_path, "<p>{{ x }}</p>", "c.jinja")
    reports = check_target(str(tmp_path), OFFLINE, CheckOptions())
    verdicts = {Path(report.display).name: report.verdict for report in reports}
    assert verdicts == {"a.jinja": "preserving", "b.jinja": "error", "c.jinja": "not-evaluated"}


def test_a_template_is_read_from_a_stream() -> None:
    stream = io.BytesIO(_DROPS.encode())
    (checked,) = check_target("-", OFFLINE, CheckOptions(), stdin=stream)
    assert checked.display == "<stdin>"
    assert checked.verdict == "breaks"


def _conversation(*messages: Mapping[str, object], **more: object) -> CheckOptions:
    return CheckOptions(conversation={"messages": list(messages), **more})


_ASKED = {"role": "user", "content": "q"}
_MORE = {"role": "user", "content": "and?"}


def test_a_given_conversation_is_the_only_run_and_has_its_rows(tmp_path: Path) -> None:
    said = {"role": "assistant", "content": "a", "completion": "a<|im_end|>"}
    checked = _only(_written(tmp_path, APPENDS), _conversation(_ASKED, said, _MORE))
    (run,) = checked.runs
    assert (run.scenario, run.replay, run.completion) == ("given", "given", "given")
    assert run.requested
    assert [row.turn for row in run.turns] == [1, 2]
    assert run.turns[0].reuse_tokens is None
    assert checked.verdict == "preserving"


def test_a_given_conversation_with_reasoning_is_replayed_by_both_clients(tmp_path: Path) -> None:
    said = {"role": "assistant", "content": "a", "reasoning": "r"}
    checked = _only(_written(tmp_path, _DROPS), _conversation(_ASKED, said, _MORE))
    assert {run.client: run.preserving for run in checked.runs} == {
        "faithful": False,
        "reasoning-dropping": None,
    }
    assert checked.verdict == "breaks"


def test_given_token_ids_are_the_completion(tmp_path: Path) -> None:
    # The tokenizer lies beside the template; its <|im_end|> is 3943.
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((EXAMPLE / name).read_bytes())
    said = {"role": "assistant", "content": "a", "completion_token_ids": [64, 3943]}
    checked = _only(_written(tmp_path, APPENDS), _conversation(_ASKED, said, _MORE))
    assert not checked.tokenizer_approximate
    (run,) = checked.runs
    first, second = run.turns
    assert (first.stream_tokens or 0) - first.prompt_tokens == 2
    assert second.previous_stream_tokens == first.stream_tokens


def test_kwargs_of_a_conversation_are_its_mode(tmp_path: Path) -> None:
    said = "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}"
    text = branches(said, "{%- if loud %}{{- '!' }}{% endif %}")
    answer = {"role": "assistant", "content": "a"}
    options = _conversation(_ASKED, answer, _MORE, chat_template_kwargs={"loud": True})
    checked = _only(_written(tmp_path, text), options)
    assert checked.coverage.modes == ({"loud": True},)
    assert "TF103" in {finding.code for finding in checked.findings}


def test_the_report_of_a_named_template_carries_its_name(tmp_path: Path) -> None:
    config = {
        "chat_template": [
            {"name": "default", "template": APPENDS},
            {"name": "tool_use", "template": _DROPS},
        ],
        "eos_token": "<|im_end|>",
    }
    target = _written(tmp_path, json.dumps(config), "tokenizer_config.json")
    reports = check_target(target, OFFLINE, CheckOptions())
    assert {report.template_name: report.verdict for report in reports} == {
        "default": "preserving",
        "tool_use": "breaks",
    }


@pytest.mark.parametrize(
    ("excluded", "policies"), [(0, ["lossless"]), (3, ["lossless", "keep-reasoning"])]
)
def test_a_wider_policy_repairs_what_the_narrower_one_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, excluded: int, policies: list[str]
) -> None:
    def repaired(template: ChatTemplate, options: PatchOptions) -> RepairReport:
        assert options.afterwards is not None
        assert not options.afterwards.repair_under
        left = excluded if options.policy == "lossless" else 0
        status: RepairStatus = "unchanged" if left else "patched"
        return RepairReport(
            template.target,
            template.display,
            None,
            options.policy,
            16,
            status,
            "",
            "",
            excluded=left,
        )

    monkeypatch.setattr(api, "patch_template", repaired)
    asked = CheckOptions(repair_under=("lossless", "keep-reasoning"))
    checked = _only(_written(tmp_path, _DROPS), asked)
    assert [each.policy for each in checked.repairs] == policies
    assert not _only(_written(tmp_path, APPENDS, "a.jinja"), asked).repairs


def test_the_repair_of_one_template_of_a_folder_names_that_template(tmp_path: Path) -> None:
    model = tmp_path / "models" / "one"
    model.mkdir(parents=True)
    _written(model, _DROPS, "chat_template.jinja")
    loose = _written(tmp_path / "models", _DROPS, "loose.jinja")
    checked = check_target(str(tmp_path / "models"), OFFLINE, CheckOptions(), alone=False)
    commands = [
        finding.fix.text
        for report in checked
        for finding in report.findings
        if finding.code == "TF102" and finding.fix is not None
    ]
    targets = {shlex.split(command)[2] for command in commands}
    assert targets == {str(model), loose}
    assert {api.the_template(target, OFFLINE).text for target in targets} == {_DROPS}


def test_the_repair_of_a_named_template_names_it(tmp_path: Path) -> None:
    named = [{"name": name, "template": _DROPS + name} for name in ("default", "tool_use")]
    config = json.dumps({"chat_template": named})
    target = _written(tmp_path, config, "tokenizer_config.json")
    for checked in check_target(target, OFFLINE, CheckOptions()):
        (fix,) = {f.fix.text for f in checked.findings if f.code == "TF102" and f.fix}
        assert f"--template-name {checked.template_name} --out" in fix
