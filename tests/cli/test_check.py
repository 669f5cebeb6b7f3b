"""What ``check`` asks for, and how it shows what it got."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.stub import Stub
from tests.report.samples import clean, finding, report


def test_options_reach_the_check(stub: Stub, tmp_path: Path) -> None:
    conversation = {"messages": [{"role": "user", "content": "hi"}]}
    file = tmp_path / "c.json"
    file.write_text(json.dumps(conversation))
    program = stub({"x": clean()})
    program("check", "x", "--conversation", str(file), "--kwargs", '{"a": [1]}', "--seed", "3")
    program("check", "x", "--conversation", "-", "--no-search", stdin=json.dumps(conversation))
    first, second = (call.options for call in program.calls)
    assert first.conversation == second.conversation == conversation
    assert (first.kwargs, first.seed, first.max_examples) == ({"a": [1]}, 3, 20)
    assert second.max_examples == 0


@pytest.mark.parametrize("content", [b"\xff", b"{", b"[]", b'{"messages": 1}'])
def test_an_unusable_conversation_is_a_line_and_exit_2(
    stub: Stub, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(content)
    ended = stub({"x": clean()})("check", "x", "--conversation", str(file))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"templatefix: {file}: ")
    assert ended.stderr.count("\n") == 1


def test_a_target_is_alone_unless_there_are_others_or_a_hook(stub: Stub) -> None:
    program = stub({"x": clean(), "y": clean()})
    program("check", "x")
    program("check", "x", "y")
    program("check", "x", "--hook")
    assert [call.alone for call in program.calls] == [True, False, False, False]


@pytest.mark.parametrize("output_format", ["text", "json", "sarif", "github"])
def test_a_report_in_a_file_is_the_report_on_stdout(
    stub: Stub, tmp_path: Path, output_format: str
) -> None:
    program = stub({"x": report()})
    file = tmp_path / "report"
    printed = program("check", "x", "--output-format", output_format)
    written = program("check", "x", "--output-format", output_format, "--output", str(file))
    assert (written.stdout, written.stderr) == ("", f"wrote {file}\n")
    assert file.read_text("utf-8") == printed.stdout != ""
    again = ("--output-format", output_format, "--output", str(file))
    assert program("check", "x", "--quiet", *again).stderr == ""
    assert printed.exit_code == written.exit_code == 1


def test_colour_follows_the_option_and_no_color(stub: Stub) -> None:
    program = stub({"x": report()})
    assert "\x1b[" not in program("check", "x").output
    assert "\x1b[" in program("check", "x", "--color", "always").output
    assert "\x1b[" in program("check", "x", "--color", "always", NO_COLOR="1").output
    assert "\x1b[" not in program("check", "x", "--color", "never").output


def test_quiet_and_verbose(stub: Stub) -> None:
    program = stub({"x": report(), "y": clean(), "z": clean(skipped="no chat template")})
    quiet = program("check", "x", "y", "z", "--quiet").stdout
    assert quiet.startswith("x:3:16  TF102")
    assert "preserving" not in quiet
    assert "not evaluated" not in quiet
    verbose = program("check", "x", "y", "z", "--verbose").stdout
    assert "r1  faithful, raw" in verbose
    assert "z: skipped: no chat template" in verbose


def test_full_keeps_the_turns_of_every_run(stub: Stub) -> None:
    program = stub({"x": clean()})
    [short] = program.json("check", "x")["reports"]
    [full] = program.json("check", "x", "--full")["reports"]
    assert not any(run["turns"] for run in short["runs"])
    assert all(run["turns"] for run in full["runs"])


def test_a_fixed_mode_calls_no_suppression_unused(stub: Stub) -> None:
    source = "{# templatefix: ignore-file[TF104] in another mode #}"
    program = stub({"x": clean(source=source)})
    assert program("check", "x").exit_code == 1
    assert program("check", "x", "--kwargs", "{}").exit_code == 0


def test_the_codes_of_suppressions_can_be_selected(stub: Stub) -> None:
    program = stub({"x": report(source="{# templatefix: ignore-file[TF102] #}")})
    [only] = program.json("check", "x", "--select", "TF001")["reports"]
    assert [each["code"] for each in only["findings"]] == ["TF001"]
    assert program("check", "x", "--ignore", "TF001").exit_code == 0


def test_findings_of_several_templates_stay_apart(stub: Stub) -> None:
    second = report(findings=(finding(code="TF104", name="altered-content"),))
    text = stub({"a": report(), "b": second})("check", "a", "b").stdout
    assert text.index("a: breaks") < text.index("TF102") < text.index("b: breaks")
    assert text.index("b: breaks") < text.index("TF104")
