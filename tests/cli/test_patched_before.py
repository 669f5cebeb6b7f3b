"""A template that carries our header: what is advised for it, and what patching it again does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from templatefix.cli.program import templatefix
from templatefix.patching.candidate import Candidate
from templatefix.patching.header import with_header
from templatefix.policy import original_of, policy_of
from tests.example import EXAMPLE

PATCH = ("--max-examples", "0", "--isolated")


def run(*words: str) -> Result:
    return CliRunner().invoke(templatefix, list(words))


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example under lossless, as README's recipe makes it."""
    out = tmp_path_factory.mktemp("patched") / "fixed.jinja"
    assert run("patch", str(EXAMPLE), "--out", str(out), *PATCH).exit_code == 0
    return out


@pytest.fixture
def here(patched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the patched file, in which the test works."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(patched, "fixed.jinja"))


def test_the_model_itself_is_patched_for_another_policy(here: Path) -> None:
    wanted = f"templatefix patch {EXAMPLE} --out fixed.jinja --force --policy keep-reasoning"
    served = run("serve-args", str(EXAMPLE), "--chat-template", str(here))
    assert f"instead: {wanted} (" in " ".join(served.stderr.split())
    checked = run("check", str(EXAMPLE), "--chat-template", str(here), "--no-search", "-v")
    assert f"fix: {wanted} (" in " ".join(checked.stdout.split())


def test_a_file_of_another_original_is_patched_itself(here: Path) -> None:
    other = here.read_text("utf-8").replace(f"{original_of(here.read_text('utf-8'))}", "0" * 64)
    here.write_text(other, "utf-8")
    served = run("serve-args", str(EXAMPLE), "--chat-template", str(here))
    words = f"templatefix patch {EXAMPLE} --chat-template fixed.jinja --out fixed.jinja --force"
    assert words in " ".join(served.stderr.split())


def test_the_same_policy_changes_nothing(here: Path) -> None:
    before = here.read_bytes()
    ended = run("patch", str(here), "--in-place", *PATCH)
    assert ended.exit_code == 0
    assert here.read_bytes() == before
    assert "patched before" not in ended.stderr


def test_another_policy_leaves_one_header_and_says_where_to_start(here: Path) -> None:
    first = original_of(here.read_text("utf-8"))
    words = ("--policy", "keep-reasoning", "--out", "again.jinja", *PATCH)
    ended = run("patch", str(here), *words)
    assert ended.exit_code == 0
    text = Path("again.jinja").read_text("utf-8")
    assert text.count("templatefix-policy:") == text.count("original-sha256:") == 1
    assert (policy_of(text), original_of(text)) == ("keep-reasoning", first)
    assert "  Before that:\n  Patched by templatefix" in text
    assert first is not None
    assert f"patched before: its original (sha256 {first[:12]}) is the better start" in ended.stderr
    ended = run("patch", str(EXAMPLE), "--chat-template", str(here), *words, "--force")
    better = f"templatefix patch {EXAMPLE} --policy keep-reasoning --out again.jinja --isolated"
    assert f"patched before, and its original is there: {better} --force\n" in ended.stderr


def test_a_header_that_a_candidate_has_moved_is_not_left_behind() -> None:
    first = with_header(Candidate("{{ a }}", 2, ("a note",)), "{{ a }}", "1" * 64, "lossless")
    folded = Candidate("{%- macro f() %}\n" + first + "{% endmacro %}", 5, ())
    text = with_header(folded, first, "2" * 64, "keep-reasoning")
    assert text.endswith("#}\n{%- macro f() %}\n{{ a }}{% endmacro %}")
    assert text.count("#}") == 1
    assert "- a note" in text
    assert original_of(text) == "1" * 64


def test_what_a_policy_leaves_out_is_no_break(here: Path) -> None:
    checked = run("check", str(here), "--no-search", "--isolated")
    (verdict, *_) = checked.stdout.splitlines()
    told = "fixed.jinja: preserving under lossless (reasoning is dropped in 2 of 11 core runs, "
    assert verdict.startswith(told + "which it leaves as it is; ")
    asked = ("--no-search", "--isolated", "--policy")
    both = run("check", str(here), str(EXAMPLE), *asked, "lossless").stdout.splitlines()
    assert both[-1] == "2 templates: 1 preserving under lossless, 1 broken"
    (wide, *_) = run("check", str(here), *asked, "keep-reasoning").stdout.splitlines()
    assert wide.startswith("fixed.jinja: breaks (tokens are lost in 2 of 11 core runs")


def test_a_program_reads_the_verdict_that_it_knows(here: Path) -> None:
    ended = run("check", str(here), "--no-search", "--isolated", "--output-format", "json")
    assert '"verdict": "breaks"' in ended.stdout
    assert "left_out" not in ended.stdout
    page = run("check", str(here), "--no-search", "--isolated", "--output-format", "html").stdout
    assert "</span> preserving under lossless</span>" in page
