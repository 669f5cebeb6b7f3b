"""Baselines hide what a project has accepted, and nothing new."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from templatefix.findings.finding import Location
from tests.cli.stub import Stub
from tests.report.samples import clean, finding, info, report


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.jinja").write_text("{{ messages }}")
    monkeypatch.chdir(tmp_path)


def moved(lines: int) -> Location:
    first = finding().locations[0]
    return replace(first, line=first.line + lines, end_line=first.end_line + lines)


def test_accepted_findings_are_hidden_and_new_ones_are_not(stub: Stub) -> None:
    program = stub({"x.jinja": report(findings=(finding(), info()))})
    written = program("check", "x.jinja", "--write-baseline", "b.json")
    assert written.exit_code == 0
    assert written.stderr == "wrote 2 findings to b.json\n"
    assert "2 hidden" in written.stdout
    assert program("check", "x.jinja", "--baseline", "b.json").exit_code == 0
    new = finding(code="TF104", name="altered-content")
    program.outcomes["x.jinja"] = report(findings=(finding(), new))
    [only] = program.json("check", "x.jinja", "--baseline", "b.json")["reports"]
    assert [each["code"] for each in only["findings"]] == ["TF104"]
    assert [(each["code"], each["by"]) for each in only["hidden"]] == [("TF102", "baseline")]


def test_lines_may_shift_and_the_file_may_be_named_otherwise(stub: Stub, tmp_path: Path) -> None:
    stub({"x.jinja": report()})("check", "x.jinja", "--write-baseline", "b.json")
    shifted = report(findings=(finding(locations=(moved(40),)),))
    for name in ("x.jinja", "./x.jinja", str(tmp_path / "x.jinja")):
        ended = stub({name: shifted})("check", name, "--baseline", "b.json")
        assert ended.exit_code == 0, name


def test_other_files_templates_and_causes_are_not_hidden(stub: Stub) -> None:
    stub({"x.jinja": report()})("check", "x.jinja", "--write-baseline", "b.json")
    other = replace(finding().locations[0], snippet="loop.last")
    for name, changed in (
        ("y.jinja", report()),
        ("x.jinja", report(template_name="tool_use")),
        ("x.jinja", report(findings=(finding(locations=(other,)),))),
    ):
        assert stub({name: changed})("check", name, "--baseline", "b.json").exit_code == 1


def test_rewriting_a_baseline_that_is_in_use_keeps_what_it_hides(stub: Stub) -> None:
    program = stub({"x.jinja": report()})
    program("check", "x.jinja", "--write-baseline", "b.json")
    before = Path("b.json").read_text()
    program("check", "x.jinja", "--baseline", "b.json", "--write-baseline", "b.json")
    assert Path("b.json").read_text() == before
    program.outcomes["x.jinja"] = clean()
    program("check", "x.jinja", "--write-baseline", "b.json")
    assert json.loads(Path("b.json").read_text()) == {"version": 1, "findings": []}


def test_the_file_is_sorted_and_holds_no_line_numbers(stub: Stub) -> None:
    findings = (info(), finding())
    stub({"x.jinja": report(findings=findings)})("check", "x.jinja", "--write-baseline", "b.json")
    document = json.loads(Path("b.json").read_text())
    entries = document["findings"]
    assert [each["code"] for each in entries] == ["TF102", "TF105"]
    assert set(entries[0]) == {"file", "template_name", "code", "fingerprint"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "findings": [1]}',
        '{"version": 1, "findings": [{"file": 1}]}',
        '{"version": 2, "findings": []}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_what_is_no_baseline_is_a_line_and_exit_2(stub: Stub, text: str) -> None:
    Path("b.json").write_text(text, encoding="latin-1")
    ended = stub({"x.jinja": report()})("check", "x.jinja", "--baseline", "b.json")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("templatefix: b.json: is")
    assert ended.stderr.count("\n") == 1
