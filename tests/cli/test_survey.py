"""``templatefix survey``: the outcome of each template, the counts, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from templatefix.cli.program import templatefix
from templatefix.patching.contract import Violation
from templatefix.patching.repair import Attempt, Patched, PatchOptions
from templatefix.source import ChatTemplate
from tests.cli.test_patch import DROPS_BLOCK, HAS_KWARG
from tests.example import EXAMPLE
from tests.hostile.templates import DEAF, SLOW
from tests.subjects import APPENDS

#: Its loop has no end.
BROKEN = "{%- for message in messages %}{{ message.role"


def survey(*args: str) -> Result:
    quick = ("--max-examples", "2", "--jobs", "1", "--policy", "keep-reasoning")
    return CliRunner().invoke(templatefix, ["survey", *quick, *args])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("a-block", DROPS_BLOCK),
        ("b-kwarg", HAS_KWARG),
        ("c-clean", APPENDS),
        ("d-no-chat", "{{ messages }}"),
    ):
        (tmp_path / f"{name}.jinja").write_text(text, "utf-8")
    return tmp_path


def test_each_template_that_breaks_has_a_line_and_all_are_counted(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    ended = survey(str(folder), "--tokenizer", str(EXAMPLE))
    lines = ended.stdout.splitlines()
    assert lines[0].startswith(f"{folder}/a-block.jinja: repaired by rung ")
    assert lines[1].startswith(f"{folder}/b-kwarg.jinja: repaired by rung 1, ")
    assert lines[2] == (
        "4 templates under keep-reasoning: 1 preserves, 2 break; 2 of these are repaired, 0 are not"
    )
    assert "  rung 1 (the default of a kwarg): 1" in lines
    assert lines[-1] == "  0 unusable, 1 no chat templates"
    assert ended.exit_code == 0
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("clause", ["C2", None])
def test_a_template_that_is_not_repaired_has_its_reason_and_fails_the_survey(
    clause: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = (Attempt(5, Violation("C2", "it goes\nwrong")),) if clause else ()

    def fail(template: ChatTemplate, options: PatchOptions) -> Patched:
        return Patched(template, options.policy, "failed", None, None, None, 7, 0, attempts)

    monkeypatch.setattr("templatefix.patching.survey.repair", fail)
    report = folder / "report.json"
    file = folder / "a-block.jinja"
    ended = survey(str(file), "--report", str(report))
    reason = "C2: rung 5: it goes wrong" if clause else "no rung has a candidate for what breaks"
    assert ended.stdout.splitlines() == [
        f"{file}: not repaired, 7 broken: {reason}",
        "1 template under keep-reasoning: 0 preserve, 1 breaks; 0 of these are repaired, 1 is not",
        "  not repaired, by the clause that the last candidate broke: "
        f"{clause or 'no candidate'} 1",
    ]
    assert ended.exit_code == 1
    (only,) = outcomes(report)
    assert (only["outcome"], only["clause"], only["rung"]) == ("not-repaired", clause, None)


def test_what_cannot_be_used_is_named_and_does_not_hide_the_rest(folder: Path) -> None:
    (folder / "0-broken.jinja").write_text(BROKEN, "utf-8")
    ended = survey(str(folder), "--tokenizer", str(EXAMPLE))
    assert ended.stdout.startswith(f"{folder}/0-broken.jinja: unusable: line 1: ")
    assert "1 unusable, 1 no chat templates" in ended.stdout
    assert "b-kwarg.jinja: repaired by rung 1" in ended.stdout
    assert ended.exit_code == 2


def test_a_template_that_takes_too_much_is_not_repaired(folder: Path) -> None:
    (folder / "a-block.jinja").write_text(DEAF["a comparison"], "utf-8")
    (folder / "b-kwarg.jinja").write_text(APPENDS + SLOW["nested ranges"], "utf-8")
    report = folder / "report.json"
    ended = survey(str(folder), "--time-limit", "0.3", "--report", str(report))
    assert "a-block.jinja: not repaired, 0 broken: TF601: rendering takes more" in ended.stdout
    assert "b-kwarg.jinja: not repaired, 0 broken: TF601: rendering takes more" in ended.stdout
    assert [each["clause"] for each in outcomes(report)] == ["TF601", "TF601", None, None]
    assert ended.exit_code == 1


def test_the_workers_change_neither_the_lines_nor_the_report(folder: Path) -> None:
    found = []
    for jobs in ("1", "3"):
        report = folder / f"{jobs}.json"
        ended = survey(str(folder), "--jobs", jobs, "--report", str(report))
        found.append((ended.stdout, ended.exit_code, report.read_bytes()))
    assert found[0] == found[1]


def test_quiet_leaves_the_counts_and_verbose_says_what_it_took(folder: Path) -> None:
    quiet = survey(str(folder), "-q").stdout
    assert quiet.startswith("4 templates under keep-reasoning: ")
    verbose = survey(str(folder), "-v").stdout.splitlines()
    assert any(line.startswith(f"{folder}/c-clean.jinja: preserves (") for line in verbose)
    assert any(line.startswith(f"{folder}/d-no-chat.jinja: skipped: not a") for line in verbose)


def outcomes(report: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(report.read_text("utf-8"))["templates"]
    return found


def test_tokenizers_are_named_for_a_file_or_for_the_folder_it_lies_in(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.jinja").write_text(APPENDS, "utf-8")
    (tmp_path / "tok").symlink_to(EXAMPLE)
    named = tmp_path / "tokenizers.json"
    named.write_text(json.dumps({"one": "tok", "two/t.jinja": str(EXAMPLE)}), "utf-8")
    report = tmp_path / "report.json"
    folders = [str(tmp_path / name) for name in ("one", "two", "three")]
    ended = survey(*folders, "--tokenizers", str(named), "--report", str(report))
    assert ended.exit_code == 0
    sources = [each["tokenizer"] for each in outcomes(report)]
    assert [source is not None for source in sources] == [True, True, False]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("{", "not JSON"),
        ('["tok"]', "not an object of strings"),
        ('{"one": 1}', "not an object of strings"),
    ],
)
def test_a_bad_file_of_tokenizers_ends_the_survey(
    content: str | None, words: str, folder: Path
) -> None:
    named = folder / "tokenizers.txt"
    if content is not None:
        named.write_text(content, "utf-8")
    ended = survey(str(folder), "--tokenizers", str(named))
    assert ended.exit_code == 2
    assert words in ended.stderr
