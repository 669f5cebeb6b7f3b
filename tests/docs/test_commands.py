"""Every command that README and docs/ show is run, or ``exempt`` says why it is not."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import pytest

from templatefix import load, simulate
from templatefix.cli.program import templatefix
from tests import packages
from tests.docs import exempt
from tests.docs.blocks import ROOT, Command, console
from tests.docs.folder import fill, hub, with_qwen3
from tests.hub import HubServer

COMMANDS = console()
#: Of these the output is not shown, so that a small model can stand in for theirs.
SILENT = [each for each in COMMANDS if not each.shown and exempt.reason(each.words) is None]
SHOWN = [each for each in COMMANDS if each.shown and exempt.reason(each.words) is None]

#: Stands for any lines of an output that a page does not show in full.
LEFT_OUT = "[...]"

#: A command -> its exit code, its standard output and its standard error.
Ended = Mapping[str, tuple[int, str, str]]


def _id(command: Command) -> str:
    return f"{command.page}:{command.line}"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A silent command -> how it ended. What several pages show is run once."""
    folder = fill(tmp_path_factory.mktemp("pages"))
    asked = list(dict.fromkeys(each.words for each in SILENT))
    with HubServer(hub()) as server:
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
            "HF_ENDPOINT": server.endpoint,
            "HF_HOME": str(folder / "hub"),
            "COLUMNS": "100",
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.docs.runner"],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return dict(zip(asked, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("command", SILENT, ids=_id)
def test_a_command_does_its_work(command: Command, ended: Ended) -> None:
    code, out, err = ended[command.words]
    assert code in (0, 1), err
    assert out or err or "--output" in command.words


def test_the_first_command_shows_what_it_is_for() -> None:
    (first, *_) = (each for each in COMMANDS if each.page == "README.md" and "venv" in each.words)
    (words,) = _ours(first.words)
    done = _run(words, ROOT)
    assert done.returncode == 0
    assert "TF101" in done.stdout
    assert "TF102" in done.stdout


def _run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "templatefix", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT)},
        check=False,
    )


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packages.or_skip(lambda: with_qwen3(tmp_path_factory.mktemp("qwen3")))


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What a command printed that another page shows as well."""
    return {}


@pytest.mark.corpus
@pytest.mark.parametrize("command", SHOWN, ids=_id)
def test_what_a_command_prints_is_what_the_page_shows(
    command: Command, qwen3: Path, printed: dict[str, str]
) -> None:
    pattern = re.escape(command.shown).replace(re.escape(LEFT_OUT), ".*")
    assert re.fullmatch(pattern, _print(command.words, qwen3, printed), re.DOTALL)


def _print(command: str, folder: Path, printed: dict[str, str]) -> str:
    """What a command prints, the report on stderr where there is nothing on standard output."""
    if command not in printed:
        program, *words = shlex.split(command)
        assert program == "templatefix"
        done = _run(words, folder)
        printed[command] = (done.stdout or done.stderr).rstrip("\n")
    return printed[command]


@pytest.mark.corpus
def test_the_directory_that_the_pages_check_is_made_without_a_hub(
    qwen3: Path, printed: dict[str, str], tmp_path: Path
) -> None:
    (words,) = (each.words for each in COMMANDS if each.words.endswith("tiny_server.py Qwen3-8B"))
    _, program, name = words.split()
    subprocess.run([sys.executable, ROOT / program, name], cwd=tmp_path, check=True)
    check = "templatefix check --quiet Qwen3-8B"
    assert _print(check, tmp_path, {}) == _print(check, qwen3, printed) != ""


@pytest.mark.corpus
def test_the_figure_shows_what_check_and_patch_say(qwen3: Path, printed: dict[str, str]) -> None:
    """Its description has the figures; ``templatefix check Qwen3-8B --plot`` draws it."""
    drawn = (ROOT / "docs" / "assets" / "reuse.svg").read_text("utf-8")
    _print("templatefix patch Qwen3-8B --out fixed.jinja", qwen3, printed)
    shipped = load(qwen3 / "Qwen3-8B")
    kept = (ROOT / "patched_templates" / "qwen3.jinja").read_text("utf-8")
    for kwargs, served in (({}, kept), ({"enable_thinking": False}, qwen3 / "fixed.jinja")):
        before = simulate(shipped, kwargs=kwargs).comparisons[-1]
        after = simulate(shipped, kwargs=kwargs, served=served).comparisons[-1]
        of = len(before.after.prompt_ids)
        words = f"of the last prompt&#39;s {of} tokens {before.hit} are reused"
        assert f"{words}, {after.hit} of {len(after.after.prompt_ids)} with the patch" in drawn


@pytest.mark.parametrize("command", [c for c in COMMANDS if exempt.reason(c.words)], ids=_id)
def test_a_command_of_ours_that_is_not_run_can_be_parsed(command: Command) -> None:
    for words in _ours(command.words):
        group: click.Command = templatefix
        context = click.Context(group)
        while isinstance(group, click.Group):
            found = group.get_command(context, words.pop(0))
            assert found is not None
            group = found
        group.make_context("templatefix", words)


def _ours(command: str) -> list[list[str]]:
    """The commands of templatefix in a line, without those that a shell would run first."""
    command = re.sub(r"\$\([^)]*\)", "PATH", command)
    after = re.findall(r"(?:^|&& |-- |/)templatefix (.*?)(?= && |$)", command)
    return [shlex.split(words) for words in after]


def test_every_exemption_is_needed() -> None:
    for begin in exempt.COMMANDS:
        assert any(re.match(begin, each.words) for each in COMMANDS), begin


def test_the_second_command_is_the_one_that_continuous_integration_runs() -> None:
    made = [each.words for each in COMMANDS if each.words.startswith("python3 -m venv")]
    assert made[1] in (ROOT / ".ci" / "run").read_text("utf-8")
