"""``templatefix patch``: where the template goes, what is said about it, and how it ends."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from templatefix import api
from templatefix.cli.patch_target_file import for_stdout
from templatefix.cli.program import templatefix
from templatefix.findings.repair import Refusal, RepairReport, Rungless
from templatefix.patching import repair as repairing
from templatefix.patching.repair import PatchOptions
from templatefix.source import ChatTemplate
from templatefix.worker import Worker
from tests.cli.stub import ROOT
from tests.example import EXAMPLE
from tests.subjects import APPENDS, branches

#: Leaves out, in history, the empty block that the generation prompt ends in.
DROPS_BLOCK = branches(
    "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}",
    prompt="{{- '<think>\\n\\n</think>\\n\\n' }}",
)
#: Keeps reasoning when it is told to.
HAS_KWARG = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' }}{{- message.role }}{{- '\\n' }}"
    "{%- if message.reasoning_content is defined and (loop.last or keep) %}"
    "{{- '<think>' + message.reasoning_content + '</think>' }}{% endif %}"
    "{{- message.content }}{{- '<|im_end|>' }}{{- '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"
)
#: Prints reasoning only where it is last.
DROPS_REASONING = HAS_KWARG.replace(" or keep", "")


#: What came of each repair that was asked for, whatever the file was called.
_REPAIRS: dict[str, RepairReport] = {}
_MAKE = api.patch_template


@pytest.fixture(autouse=True)
def _repairs_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests here are about what goes around a repair, and ask for the same ones."""
    make = Worker.patch

    def remembered(worker: Worker, template: ChatTemplate, options: PatchOptions) -> RepairReport:
        if api.patch_template is not _MAKE:  # a test has put something else in its place
            return make(worker, template, options)
        unnamed = replace(template, target="", display="", path=None, name=None, format="")
        key = repr((unnamed, options, repairing.LADDER))
        if key not in _REPAIRS:
            _REPAIRS[key] = make(worker, template, options)
        target, display, name = template.target, template.display, template.name
        return replace(_REPAIRS[key], target=target, display=display, template_name=name)

    monkeypatch.setattr(Worker, "patch", remembered)


def patch(*args: str, stdin: str | bytes | None = None) -> Result:
    quick = ("--tokenizer", str(EXAMPLE), "--max-examples", "2")
    return CliRunner().invoke(templatefix, ["patch", *args, *quick], input=stdin)


def checks(target: str, *args: str) -> Any:
    """The report of ``check`` with the example's tokenizer and nothing else."""
    args = (target, *args, "--tokenizer", str(EXAMPLE), "--output-format", "json")
    (report,) = json.loads(CliRunner().invoke(templatefix, ["check", *args]).stdout)["reports"]
    return report


def losses(checked: Any) -> list[tuple[Any, ...]]:
    """The TF1xx that a check shows, as far as the report of a patch tells of each."""
    core = {run["id"] for run in checked["runs"] if run["core"]}
    return [
        (
            each["code"],
            each["severity"],
            bool(each["run_ids"]) and core.isdisjoint(each["run_ids"]),
            (each["run_ids"] or [None])[0],
            each["turn"],
            each["lost_tokens"],
        )
        for each in checked["findings"]
        if each["code"].startswith("TF1")
    ]


def remaining(told: Any) -> tuple[Any, ...]:
    names = ("code", "severity", "edge", "run_id", "turn", "lost_tokens")
    return tuple(told[name] for name in names)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chat_template.jinja"
    path.write_text(DROPS_BLOCK, "utf-8")
    return path


@pytest.mark.parametrize("policy", ["lossless", "keep-reasoning"])
def test_the_example_is_repaired_reported_and_then_left_alone(policy: str, tmp_path: Path) -> None:
    out, report = tmp_path / "fixed.jinja", tmp_path / "report.json"
    asked = ["--policy", policy, "--out", str(out)]
    ended = patch(str(EXAMPLE), *asked, "--report", str(report))
    assert (ended.exit_code, ended.stdout) == (0, "")
    serve = f"vllm serve {EXAMPLE} --chat-template {out} --reasoning-parser qwen3 "
    serve += "--enable-auto-tool-choice --tool-call-parser hermes --enable-prompt-tokens-details\n"
    assert f"  serve it: {serve}" in ended.stderr
    assert "note:" not in ended.stderr
    assert f"repaired under {policy} (rung " in ended.stderr
    assert "core comparisons lost tokens before" in ended.stderr

    told = json.loads(report.read_text("utf-8"))
    assert told["status"] == "patched"
    assert told["patched_sha256"] != told["original_sha256"]
    assert {each["clause"] for each in told["contract"]["clauses"]} >= {"C1", "C2", "C6", "C7"}
    assert all(each["passed"] and each["tried"] for each in told["contract"]["clauses"])
    assert told["contract"]["examples"] >= 2
    assert told["core_breaks"]["before"] > 0
    assert any(each["saved_prefill_tokens"] > 0 for each in told["trades"])
    left = {each["code"] for each in told["remaining"] if not each["edge"]}
    excluded = told["core_breaks"]["excluded_by_policy"]
    last = ended.stderr.splitlines()[-1]
    if policy == "lossless":
        assert left == {"TF102"}
        assert last.startswith(f"{excluded} core comparisons still lose tokens")
        assert f"--policy keep-reasoning --tokenizer {EXAMPLE} --out {out} --force" in last
    else:
        assert (left, excluded) == (set(), 0)
        assert "still lose tokens, which" not in last

    once = out.read_bytes()
    again = tmp_path / "again.jinja"
    ended = patch(str(out), "--policy", policy, "--out", str(again))
    assert ended.exit_code == 0
    assert "unchanged" in ended.stderr
    assert again.read_bytes() == once

    checked = checks(str(out))
    assert checked["policy"] == policy
    assert losses(checked) == [remaining(each) for each in told["remaining"]]
    core = {run["id"] for run in checked["runs"] if run["core"]}
    graver = [each for each in checked["findings"] if each["severity"] != "info"]
    assert not [f for f in graver if f["code"].startswith("TF1") and core & set(f["run_ids"])]


def test_a_diff_is_printed_and_nothing_written(file: Path) -> None:
    before = file.read_bytes()
    ended = patch(str(file), "--diff")
    assert ended.exit_code == 1
    assert ended.stdout.startswith(f"--- a{file}\n+++ b{file}\n@@ ")
    assert "\n-{{- '<|im_start|>assistant\\n' + message.content" in ended.stdout
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_the_diff_of_what_preserves_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "t.jinja"
    file.write_text(APPENDS, "utf-8")
    ended = patch(str(file), "--diff")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "nothing would change" in ended.stderr


@pytest.mark.skipif(not os.path.exists("/usr/bin/patch"), reason="needs patch(1)")
def test_the_diff_can_be_applied_to_a_file_with_any_newlines(tmp_path: Path) -> None:
    file = tmp_path / "t.jinja"
    file.write_bytes(DROPS_BLOCK.replace("\n", "\r\n").encode())
    printed = patch(str(file), "--diff").stdout_bytes
    assert patch(str(file), "--out", str(tmp_path / "out.jinja")).exit_code == 0
    command = ["/usr/bin/patch", "--binary", "-s", str(file)]
    subprocess.run(command, input=printed, check=True)
    assert file.read_bytes() == (tmp_path / "out.jinja").read_bytes()


def test_in_place_keeps_newlines_a_mark_and_the_mode(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + DROPS_BLOCK.replace("\n", "\r\n").encode())
    file.chmod(0o640)
    assert patch(str(file), "--in-place").exit_code == 0
    written = file.read_bytes()
    assert written.startswith(b"\xef\xbb\xbf{#\r\n  Patched by templatefix")
    assert written.count(b"\n") == written.count(b"\r\n") > DROPS_BLOCK.count("\n")
    assert file.stat().st_mode & 0o777 == 0o640
    changed = file.stat().st_mtime_ns
    ended = patch(str(file), "--in-place")
    assert ended.exit_code == 0
    assert "was left as it is" in ended.stderr
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (written, changed)


def test_standard_output_carries_the_template_alone() -> None:
    ended = patch("-", "--out", "-", stdin=DROPS_BLOCK)
    assert ended.exit_code == 0
    assert ended.stdout.startswith("{#\n  Patched by templatefix")
    assert "vllm serve MODEL --chat-template FILE" in ended.stderr
    assert patch("-", "--out", "-", "--quiet", stdin=DROPS_BLOCK).stderr == ""
    assert patch("-", "--out", "-", stdin=APPENDS).stdout == APPENDS


def test_an_existing_file_needs_force(file: Path) -> None:
    out = file.with_name("out.jinja")
    out.write_text("of yesterday")
    ended = patch(str(file), "--out", str(out))
    assert ended.exit_code == 2
    assert ended.stderr == f"templatefix: {out}: exists already (give --force to replace it)\n"
    assert out.read_text() == "of yesterday"
    assert patch(str(file), "--out", str(out), "--force").exit_code == 0
    assert "Patched by" in out.read_text()


def test_a_file_changed_meanwhile_is_not_overwritten(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repair = api.patch_template

    def slowly(*args: Any) -> RepairReport:
        file.write_text("mine")
        return repair(*args)

    monkeypatch.setattr(api, "patch_template", slowly)
    ended = patch(str(file), "--in-place")
    assert ended.exit_code == 2
    assert "was changed while it was being patched" in ended.stderr
    assert file.read_text() == "mine"


CONFIGS = {
    "text": '{ "b" : "\\/\\u00e9",\r\n\t"chat_template": TEXT , "z":[1.50, {"chat_template":0}] }',
    "names": (
        '{"chat_template":[{"name":"default","template":"x"},'
        '{ "template":TEXT, "name":"tool_use" }],"ü":1e5}\n'
    ),
    "mapping": '\ufeff{"chat_template": {"default": "x", "tool_use": TEXT}}',
    "same-names": (
        '{"chat_template":[{"name":"tool_use","template":"x"},{"name":"rag","template":"r"},'
        '{"name":"tool_use","template":TEXT},{"name":"rag","template":"s"}]}'
    ),
    "twice": '{"chat_template": "{{ messages }}", "chat_template": TEXT}',
}


@pytest.mark.parametrize("form", CONFIGS)
def test_only_the_template_changes_in_a_tokenizer_config(form: str, tmp_path: Path) -> None:
    file, out = tmp_path / "tokenizer_config.json", tmp_path / "out.json"
    before, after = CONFIGS[form].split("TEXT")
    file.write_bytes((before + json.dumps(DROPS_BLOCK) + after).encode())
    name = ["--template-name", "tool_use"] if "tool_use" in before + after else []
    emitted = patch(str(file), "--emit", "tokenizer-config", "--out", str(out), *name)
    assert emitted.exit_code == 0, emitted.stderr
    content = out.read_bytes().decode()
    assert content.startswith(before)
    assert content.endswith(after)
    spelled = content[len(before) : len(content) - len(after)]
    template = json.loads(spelled)
    assert template.startswith("{#\n  Patched by templatefix")

    text = tmp_path / "out.jinja"
    assert patch(str(file), "--out", str(text), *name).exit_code == 0
    assert text.read_text("utf-8") == template

    assert patch(str(file), "--in-place", *name).exit_code == 0
    assert file.read_bytes() == out.read_bytes()
    assert patch(str(file), "--in-place", *name).exit_code == 0
    assert file.read_bytes() == out.read_bytes()


def test_a_tokenizer_config_comes_from_standard_input_too() -> None:
    document = json.dumps({"chat_template": DROPS_BLOCK, "n": 1.0})
    ended = patch("-", "--emit", "tokenizer-config", "--out", "-", stdin=document)
    assert ended.exit_code == 0
    assert ended.stdout.endswith(', "n": 1.0}')
    assert json.loads(ended.stdout)["chat_template"].startswith("{#\n  Patched")


def test_a_config_beside_a_template_file_is_written_and_said_to_be_overruled(file: Path) -> None:
    config = file.with_name("tokenizer_config.json")
    config.write_text('{"chat_template": "old", "n": 1}')
    out = file.with_name("out.json")
    ended = patch(str(file.parent), "--emit", "tokenizer-config", "--out", str(out))
    assert ended.exit_code == 0
    assert "chat_template.jinja beside it takes precedence" in ended.stderr
    assert json.loads(out.read_text())["chat_template"].startswith("{#\n  Patched")


def test_kwargs_that_suffice_are_baked_in_or_printed(tmp_path: Path) -> None:
    file, out = tmp_path / "t.jinja", tmp_path / "out.jinja"
    file.write_text(HAS_KWARG)
    asked = [str(file), "--policy", "keep-reasoning", "--out", str(out)]
    flags = patch(*asked, "--prefer-kwargs")
    assert flags.exit_code == 0
    assert flags.stdout == "--default-chat-template-kwargs '{\"keep\": true}'\n"
    assert not out.exists()
    baked = patch(*asked)
    assert (baked.exit_code, baked.stdout) == (0, "")
    assert "rung 1" in baked.stderr
    assert "{%- set keep = keep if keep is defined else true %}" in out.read_text()


def test_what_is_excluded_is_said_even_of_an_unchanged_template(tmp_path: Path) -> None:
    file, out = tmp_path / "it's.jinja", tmp_path / "out.jinja"
    file.write_text(DROPS_REASONING)
    ended = patch(str(file), "--out", str(out), "--quiet", "--kwargs", "{}")
    assert ended.exit_code == 0
    assert out.read_text() == DROPS_REASONING
    assert "still lose tokens, which lossless leaves as they are" in ended.stderr
    quoted = f"'{file}'".replace("it's", "it'\"'\"'s")
    assert f"templatefix patch {quoted} --policy keep-reasoning" in ended.stderr
    assert "--kwargs '{}'" in ended.stderr


#: Prints past answers as they are not wanted by anybody: nothing but the last three messages.
FORGETS = APPENDS.replace("in messages %", "in messages[-3:] %")


def test_the_case_that_no_rung_mends_is_small_and_can_be_checked(tmp_path: Path) -> None:
    file, out, report = tmp_path / "t.jinja", tmp_path / "out.jinja", tmp_path / "report.json"
    file.write_text(FORGETS)
    ended = patch(str(file), "--out", str(out), "--report", str(report))
    assert (ended.exit_code, ended.stdout, out.exists()) == (1, "", False)
    first, attempt, label, shown = ended.stderr.splitlines()
    assert first.endswith("core comparisons lose tokens, and nothing was written")
    assert "last attempt: rung 5 breaks C2: TF104 in " in attempt
    assert "--conversation" in label

    told = json.loads(report.read_text())
    assert (told["status"], told["patched_sha256"]) == ("failed", None)
    failing = told["failing"]
    assert (failing["rung"], failing["clause"]) == (5, "C2")
    assert failing["conversation"] == json.loads(shown)
    roles = [message["role"] for message in failing["conversation"]["messages"]]
    assert roles[-5:] == ["user", "assistant", "user", "assistant", "user"]
    assert len(roles) <= 6
    conversation = write(tmp_path / "conversation.json", shown)
    assert checks(str(file), "--conversation", conversation)["verdict"] == "breaks"
    assert {each["code"] for each in told["unrepaired"]} <= {
        code for code, *_ in losses(checks(str(file)))
    }


def test_the_original_itself_is_the_case_where_no_rung_has_a_candidate(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("templatefix.patching.repair.LADDER", ())
    ended = patch(str(file), "--diff")
    assert (ended.exit_code, ended.stdout) == (1, "")
    _, candidates, attempt, _, shown = ended.stderr.splitlines()
    assert "no rung has a candidate for: TF101 (" in candidates
    assert "the original breaks C2: TF101 in conversation/default/faithful/raw" in attempt
    assert len(json.loads(shown)["messages"]) == 3
    conversation = write(file.with_name("conversation.json"), shown)
    assert checks(str(file), "--conversation", conversation)["verdict"] == "breaks"


def test_the_command_for_the_other_policy_repairs_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "out.jinja"
    ended = patch(str(EXAMPLE), "--out", str(out), "--connector", "lmcache")
    *_, last = ended.stderr.splitlines()
    assert "--connector lmcache --out" in last
    count, words = int(last.split()[0]), last.partition(": ")[2]
    assert count > 0
    command, *rest = shlex.split(words)
    assert command == "templatefix"
    again = CliRunner().invoke(templatefix, [*rest, "--max-examples", "2"])
    assert again.exit_code == 0
    assert "which keep-reasoning leaves" not in again.stderr
    assert "templatefix-policy: keep-reasoning" in out.read_text("utf-8")


def test_what_a_change_of_the_mode_still_costs_is_said_in_words(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ended = patch(str(EXAMPLE), "--diff", "--report", str(report))
    words = "a client that changes enable_thinking between requests still loses tokens: "
    assert ended.stderr.count(words) == 1
    assert "a template is not told in which mode a past answer was written" in ended.stderr
    told = json.loads(report.read_text("utf-8"))
    switched = [each for each in told["remaining"] if each["mode_switch"]]
    assert switched
    assert all(each["edge"] and each["note"].startswith(words) for each in switched)


def test_a_settings_file_counts_unless_the_command_line_says_otherwise(tmp_path: Path) -> None:
    file, report = tmp_path / "t.jinja", tmp_path / "report.json"
    file.write_text(DROPS_REASONING)
    settings = tmp_path / "templatefix.toml"
    settings.write_text(
        f'policy = "keep-reasoning"\ntokenizer = "{EXAMPLE}"\nblock-size = 4\nquiet = true\n'
        'seed = 7\nmax-examples = 3\nkwargs = {keep = true}\nfail-on = "error"\n'
    )

    def told(*args: str) -> Any:
        asked = ["patch", str(file), "--diff", "--report", str(report), *args]
        ended = CliRunner().invoke(templatefix, [*asked, "--max-examples", "2"])
        assert ended.exit_code in (0, 1), ended.stderr
        return json.loads(report.read_text("utf-8")), ended.stderr

    found, said = told()
    assert (found["policy"], found["block_size"]) == ("keep-reasoning", 4)
    assert found["tokenizer"]["source"] == str(EXAMPLE / "tokenizer.json")
    assert (found["contract"]["seed"], said) == (7, "")
    overruled, said = told("--policy", "lossless", "--block-size", "8", "--seed", "1")
    assert (overruled["policy"], overruled["block_size"]) == ("lossless", 8)
    assert "which lossless leaves as they are" in said
    isolated, _ = told("--isolated")
    assert (isolated["policy"], isolated["block_size"]) == ("lossless", 16)
    assert isolated["tokenizer"]["approximate"]
    other = write(tmp_path / "other.toml", "block-size = 32\n")
    assert told("--config", other)[0]["block_size"] == 32


def test_what_is_left_is_counted_as_check_counts_it_under_the_same_settings(
    tmp_path: Path,
) -> None:
    file, out, report = tmp_path / "t.jinja", tmp_path / "out.jinja", tmp_path / "report.json"
    file.write_text((EXAMPLE / "chat_template.jinja").read_text("utf-8"))
    (tmp_path / "templatefix.toml").write_text('search = false\npolicy = "keep-reasoning"\n')
    asked = ["--policy", "lossless", "--out", str(out), "--report", str(report)]
    ended = patch(str(file), *asked)
    assert ended.exit_code == 0
    told = json.loads(report.read_text("utf-8"))["remaining"]
    assert losses(checks(str(out))) == [remaining(each) for each in told]
    assert "check still shows TF102 (error): " in ended.stderr


#: Crashes on every call of a tool: its arguments are no text.
CRASHES = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content }}"
    "{%- for call in message.tool_calls or [] %}"
    "{{- '<call>' + call.function.name + call.function.arguments + '</call>' }}{%- endfor %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"
)


def test_other_faults_are_fixed_when_they_are_asked_for(tmp_path: Path) -> None:
    file, out, report = tmp_path / "t.jinja", tmp_path / "out.jinja", tmp_path / "report.json"
    file.write_text(CRASHES)
    asked = [str(file), "--out", str(out), "--report", str(report), "--force"]
    assert patch(*asked).exit_code == 0
    assert out.read_text() == CRASHES
    assert "TF203" in {each["code"] for each in checks(str(out))["findings"]}
    assert json.loads(report.read_text())["fixes"] == []

    ended = patch(*asked, "--fix", "TF203,TF204", "--fix", "TF202", "--prefer-kwargs")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "TF203: `call.function.arguments` may be no text" in ended.stderr
    assert "TF204: nothing to fix" in ended.stderr
    fixed = out.read_text()
    assert "- TF203: `call.function.arguments` may be no text" in fixed
    assert fixed.count("\n") == CRASHES.count("\n") + fixed.partition("#}")[0].count("\n") + 1
    assert "TF203" not in {each["code"] for each in checks(str(out))["findings"]}
    told = json.loads(report.read_text())
    assert {each["code"]: each["status"] for each in told["fixes"]} == {
        "TF202": "not-shown",
        "TF203": "fixed",
        "TF204": "not-shown",
    }
    assert (told["status"], told["rung"], told["kwargs"]) == ("patched", None, None)

    again = tmp_path / "again.jinja"
    assert patch(str(out), "--fix", "TF203", "--out", str(again)).exit_code == 0
    assert again.read_text() == fixed


def test_a_fix_that_was_not_found_is_said_and_nothing_written(tmp_path: Path) -> None:
    file, out, report = tmp_path / "t.jinja", tmp_path / "out.jinja", tmp_path / "report.json"
    file.write_text(APPENDS + "{{ footer() }}")
    ended = patch(str(file), "--fix", "TF205", "--out", str(out), "--report", str(report))
    assert (ended.exit_code, ended.stdout, out.exists()) == (1, "", False)
    assert f"{file}: not fixed: TF205; nothing was written" in ended.stderr
    (fix,) = json.loads(report.read_text())["fixes"]
    assert (fix["code"], fix["status"]) == ("TF205", "not-found")
    assert "footer" in fix["left"]


CONVERSATION = {"messages": [{"role": "user", "content": "\x1b[31mred\u202e"}]}
REFUSALS = (
    Refusal(2, "C1", "a first one"),
    Refusal(3, "C2", "the stream is \x1b[2J\u202e left", CONVERSATION),
)


def failing(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    repair = api.patch_template

    def fails(*args: Any) -> RepairReport:
        return replace(repair(*args), status="failed", text=None, patched_sha256=None, **more)

    monkeypatch.setattr(api, "patch_template", fails)


def test_what_cannot_be_repaired_leaves_no_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = (Rungless(4, "macros \x1b[2J print it"),)
    failing(monkeypatch, refusals=REFUSALS, failing=REFUSALS[-1], passed_over=passed)
    out, report = file.with_name("out.jinja"), file.with_name("report.json")
    ended = patch(str(file), "--out", str(out), "--report", str(report))
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert not out.exists()
    first, attempt, _, conversation = ended.stderr.splitlines()
    assert json.loads(report.read_text())["failing"]["clause"] == "C2"
    assert "not repaired under lossless" in first
    assert "last attempt: rung 3 breaks C2" in attempt
    assert json.loads(conversation) == CONVERSATION
    assert "\x1b" not in ended.stderr
    assert "\u202e" not in ended.stderr
    refused = json.loads(report.read_text())["attempts_refused"]
    assert [each["clause"] for each in refused] == ["C1", "C2"]
    passed_over = json.loads(report.read_text())["passed_over"]
    assert passed_over == [{"rung": 4, "why": passed[0].why}]
    verbose = patch(str(file), "--diff", "--verbose")
    assert (verbose.exit_code, verbose.stdout) == (1, "")
    assert "refused: rung 2 breaks C1: a first one" in verbose.stderr
    assert "  rung 4 has no candidate: macros " in verbose.stderr
    assert "\x1b" not in verbose.stderr


def test_without_a_candidate_the_breaks_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, refusals=())
    file = tmp_path / "t.jinja"
    file.write_text(DROPS_REASONING)
    ended = patch(str(file), "--diff")
    assert ended.exit_code == 1
    assert "no rung has a candidate" in ended.stderr


def test_nothing_of_a_template_reaches_a_terminal_raw(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "a\tb\r\n\x1b[31m\u202e\x9b\n"
    assert for_stdout(evil) == evil

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert for_stdout(evil) == "a\tb\r\n\\x1b[31m\\u202e\\x9b\n"


def write(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("T", "give one of --out FILE, --in-place and --diff"),
        ("T --out", "requires an argument"),
        ("T --out x --diff", "give one of"),
        ("- --in-place", "cannot write to standard input"),
        ("T --out D/no/such.jinja", "cannot be written: no such directory"),
        ("T --out D", "is a directory"),
        ("T --out /dev/full", "cannot be written: No space left"),
        ("T --out T/x", "cannot be written"),
        ("T --diff --report D/no/such.json", "cannot be written"),
        ("D/absent.jinja --diff", "no such file"),
        ("D/bad.jinja --diff", "bad.jinja: line 1: "),
        ("D/hello.jinja --diff", "never reads messages"),
        ("D/fails.jinja --diff", "no conversation could be evaluated"),
        ("D/names.json --diff", "holds several templates: default, tool_use (pick with --template"),
        ("D/names.json --diff --template-name x", "no template named 'x'"),
        ("D --diff", "holds several templates"),
        ("T --emit tokenizer-config --diff", "has no tokenizer_config.json"),
        ("D/config.json --emit jinja --in-place", "stays the kind of file"),
        ("T --emit tokenizer-config --in-place", "stays the kind of file"),
        ("D/bare/chat_template.jinja --emit tokenizer-config --diff", "has no chat_template"),
        ("T --diff --reasoning-parser x", "no dialect for the reasoning parser 'x'"),
        ("T --diff --kwargs [1]", "not a JSON object"),
        ("T --diff --policy both", "policy"),
        ("T --diff --fix TF206", "TF206 has no fix: the template's author refuses"),
        ("T --diff --fix TF203,TF102", "TF102 has no fix: losses of reuse are repaired without"),
        ("T --diff --fix TF203 --fix TF999", "no rule has the code 'TF999'; can be fixed: TF201"),
        ("T --diff --fix ,", "give --fix codes, separated by commas"),
        ("T --diff --config D/no.toml", "no.toml: cannot be read: no such file"),
        ("T --diff --config D/x.toml --isolated", "exclude each other"),
        ("D/strange/t.jinja --diff", "unknown key 'polisy' (did you mean 'policy'?)"),
        ("org/model --offline --in-place", "not in the local hub cache"),
    ],
)
def test_what_a_user_can_cause_is_one_line_and_exit_2(
    args: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    if "/dev/full" in args and not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    target = write(tmp_path / "t.jinja", APPENDS)
    write(tmp_path / "bad.jinja", "{{ messages")
    write(tmp_path / "hello.jinja", "hello")
    write(tmp_path / "fails.jinja", APPENDS + "{{ 1 / 0 }}")
    named = [{"name": name, "template": APPENDS} for name in ("default", "tool_use")]
    write(tmp_path / "names.json", json.dumps({"chat_template": named}))
    write(tmp_path / "config.json", json.dumps({"chat_template": APPENDS}))
    write(tmp_path / "bare" / "chat_template.jinja", APPENDS)
    write(tmp_path / "strange" / "t.jinja", APPENDS)
    write(tmp_path / "strange" / "templatefix.toml", 'polisy = "lossless"')
    write(tmp_path / "bare" / "tokenizer_config.json", '{"eos_token": "<|im_end|>"}')
    spelled = [
        target + word[1:]
        if word == "T" or word.startswith("T/")
        else str(tmp_path) + word[1:]
        if word[0] == "D"
        else word
        for word in args.split()
    ]
    there = sorted(os.listdir(tmp_path))
    ended = CliRunner().invoke(templatefix, ["patch", *spelled], input="")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert words in ended.stderr
    assert sorted(os.listdir(tmp_path)) == there


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_a_place_that_takes_no_file_is_refused_before_the_work(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "patch", lambda *_: pytest.fail("the work was begun"))
    for option in ("--out", "--report"):
        given = ("--diff",) if option == "--report" else ()
        ended = patch(str(file), *given, option, "/proc/fixed.jinja")
        assert ended.exit_code == 2
        assert "/proc/fixed.jinja: cannot be written: " in ended.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("place", ["repair", "write"])
def test_a_signal_leaves_no_partial_file(number: int, code: int, place: str, file: Path) -> None:
    out = file.with_name("out.jinja")
    waits = {
        "repair": "api.patch_template = wait",
        "write": "os.replace = wait",
    }
    script = (
        "import os, sys, time\n"
        "from templatefix import api\n"
        "from templatefix.cli import main\n"
        "replace = os.replace\n"
        "def wait(*args):\n"
        "    if 'charmap' in str(args[-1]):\n"  # Hypothesis keeps a file of its own
        "        return replace(*args)\n"
        "    sys.stderr.write('started\\n')\n"
        "    sys.stderr.flush()\n"
        "    time.sleep(60)\n"
        f"{waits[place]}\n"
        f"sys.argv = ['templatefix', 'patch', {str(file)!r}, '--out', {str(out)!r}, '--quiet',\n"
        "    '--max-examples', '0']\n"
        "main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"started\n"
    process.send_signal(number)
    printed, complaint = process.communicate(timeout=20)
    assert process.returncode == code
    said = b"templatefix: interrupted: nothing was written\n" if code == 130 else b""
    assert (printed, complaint) == (b"", said)
    assert os.listdir(file.parent) == [file.name]


@pytest.fixture
def model(file: Path) -> Path:
    """A model directory with a small template that breaks."""
    shutil.copy(EXAMPLE / "tokenizer.json", file.parent)
    return file.parent


def test_the_command_to_serve_a_patch_has_the_connector(model: Path) -> None:
    out = model / "out.jinja"
    ended = patch(str(model), "--out", str(out), "--connector", "lmcache")
    assert "  serve it:\n# named by LMCACHE_CONFIG_FILE\n" in ended.stderr
    assert f"\nvllm serve {model} \\\n  --chat-template {out} \\\n" in ended.stderr
    assert '--kv-transfer-config \'{"kv_connector": "LMCacheConnectorV1"' in ended.stderr
    assert "note: lmcache.yaml: 16 GiB" in ended.stderr


def test_a_patch_that_the_server_would_not_read_is_warned_of(model: Path, tmp_path: Path) -> None:
    (model / "config.json").write_text('{"architectures": ["DeepseekV4ForCausalLM"]}')
    ended = patch(str(model), "--out", str(tmp_path / "out.jinja"))
    assert f"vllm serve {model} --tokenizer-mode hf --chat-template" in ended.stderr
    assert "warning: vLLM renders this model (architecture DeepseekV4ForCausalLM)" in ended.stderr
    (model / "config.json").write_text('{"model_type": "gpt_oss"}')
    ended = patch(str(model), "--out", str(tmp_path / "out2.jinja"))
    assert "--chat-template" not in ended.stderr.partition("serve it:")[2].partition("\n")[0]
    assert "and no flag makes vLLM render it with Jinja" in " ".join(ended.stderr.split())
