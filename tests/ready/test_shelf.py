"""Ready templates are found by name, by model and by what they render."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from templatefix.cli.program import templatefix
from templatefix.errors import TargetError
from templatefix.findings.ready import Header
from templatefix.ready import shelf
from templatefix.ready.fit import fitting, serving
from templatefix.ready.header import header_of
from templatefix.report.ready import listing, shown
from tests.subjects import APPENDS, branches, template

HEADER = """\
{#-
  Ready template.

  serves: org/One-8B, org/One-32B,
    org/Two
  reference: org/One-8B
  templatefix-policy: keep-reasoning
  change: reasoning stays,
    which is: everywhere.
  change: so do spaces.
  limit: none is known.
-#}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shelf of our own with one template on it."""
    monkeypatch.setattr(shelf, "directory", lambda: tmp_path)
    (tmp_path / "one.jinja").write_text(HEADER + APPENDS, encoding="utf-8")
    return tmp_path


def run(*words: str) -> tuple[int, str, str]:
    ended = CliRunner().invoke(templatefix, ["ready", *words])
    return ended.exit_code, ended.stdout, ended.stderr


def test_a_header_is_read_over_its_lines() -> None:
    header = header_of(HEADER + APPENDS, "one")
    assert header.serves == ("org/One-8B", "org/One-32B", "org/Two")
    assert header.references == ("org/One-8B",)
    assert header.policy == "keep-reasoning"
    assert header.changes == ("reasoning stays, which is: everywhere.", "so do spaces.")
    assert header.limits == ("none is known.",)
    assert header.differs == ()
    assert header.reasoning_parser is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  reference: org/One-8B\n", "", "says nothing of 'reference'"),
        ("  limit: none", "  limits: none", "unknown field 'limits'"),
        ("keep-reasoning", "keep-nothing", "no policy is named 'keep-nothing'"),
        ("  limit: none is known.", "  serves: org/Three", "has 'serves' twice"),
        ("{#-", "x{#-", "has no header"),
    ],
)
def test_a_header_with_a_fault_is_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        header_of((HEADER + APPENDS).replace(old, new), "one")


def test_list_show_and_path_find_what_is_on_the_shelf(folder: Path) -> None:
    assert run("list")[:2] == (0, "one  org/One-8B, org/One-32B, org/Two\n")
    assert run("path", "one")[:2] == (0, f"{folder / 'one.jinja'}\n")
    code, shown, _ = run("show", "one")
    assert code == 0
    assert "- reasoning stays, which is: everywhere." in shown
    assert '--chat-template "$(templatefix ready path one)"' in shown
    assert "not measured yet" in shown
    (entry,) = json.loads(run("list", "--output-format", "json")[1])
    assert (entry["name"], entry["record"]) == ("one", None)


def test_ids_are_not_broken_at_their_hyphens() -> None:
    served = tuple(f"some-organisation/a-model-with-a-long-name-{number}" for number in range(9))
    header = Header(served, (), (), "lossless", None, None, (), ("all",), (), ())
    for text in (listing([("one", header, None)], "text"), shown("one", "p", header, None)):
        assert all(each in text for each in served)


def test_a_name_that_is_nearly_right_is_suggested(folder: Path) -> None:
    code, _, complaint = run("path", "onne")
    assert code == 2
    assert "did you mean one?" in complaint


def test_a_model_is_found_by_its_id_whatever_its_case(folder: Path) -> None:
    assert run("for", "ORG/two")[:2] == (0, f"{folder / 'one.jinja'}\n")
    assert [each.name for each in serving("org/one-32b", shelf.shelf())] == ["one"]


def test_a_template_is_found_by_what_it_renders_without_history(folder: Path) -> None:
    """The answers may differ, since that is what a ready template is for; the prompts may not."""
    trims = branches("{{- '<|im_start|>assistant\\n' + message.content|trim + '<|im_end|>\\n' }}")
    assert [each.name for each in fitting(template(trims), shelf.shelf())] == ["one"]
    other = APPENDS.replace("<|im_start|>", "<|turn|>")
    assert fitting(template(other), shelf.shelf()) == ()


def test_a_template_that_none_fits_ends_in_exit_code_1(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "other.j2"
    file.write_text(APPENDS.replace("<|im_start|>", "<|turn|>"), encoding="utf-8")
    code, found, complaint = run("for", str(file))
    assert (code, found) == (1, "")
    assert "no ready template fits" in complaint


def test_a_broken_record_is_named(folder: Path) -> None:
    (folder / "one.json").write_text('{"format": 1}', encoding="utf-8")
    code, _, complaint = run("show", "one")
    assert code == 2
    assert "not a record of a ready template" in complaint
