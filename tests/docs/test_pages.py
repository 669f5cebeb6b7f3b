"""What the pages say beside their code blocks is what the program does."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import click
import pytest
import yaml

from templatefix.cli.program import templatefix
from tests.corpus import corpus_directory
from tests.docs.blocks import ROOT, pages

#: Options of other programs that the pages name.
_OTHERS = {
    "--default-chat-template-kwargs",
    "--enable-cache-report",
    "--enable-prompt-tokens-details",
    "--strict",  # of mkdocs
    "--tokenizer-mode",
    "--trust-request-chat-template",
    *("--store", "--prompts-only"),  # of tools/tiny_server.py
    "--help",
}


def _printed(*words: str) -> str:
    environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("file", "name"),
    [("docs/rules.md", "rules"), ("docs/ready.md", "ready"), ("README.md", "ready")],
)
def test_a_table_is_the_one_that_the_program_prints(file: str, name: str) -> None:
    """Else: ``python tools/doc_tables.py``."""
    page = (ROOT / file).read_text("utf-8")
    shown = page.partition("markdown` -->\n")[2].partition(f"\n<!-- end of {name} -->")[0]
    words = ["rules"] if name == "rules" else ["ready", "list"]
    assert shown == _printed("-m", "templatefix", *words, "--output-format", "markdown")


@pytest.mark.corpus
def test_the_table_of_workloads_is_the_one_that_the_tool_prints() -> None:
    if corpus_directory() is None:
        pytest.skip("the corpus is absent")
    page = (ROOT / "docs" / "answers.md").read_text("utf-8")
    shown = page.partition("tools/workloads.py` -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown == _printed(str(ROOT / "tools" / "workloads.py"))


def test_the_measured_figures_are_those_of_the_page_that_has_all_of_them() -> None:
    """``tests/vllm/test_measured.py`` holds that page to the prediction."""
    page = (ROOT / "docs" / "measured.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    before_ready = readme.partition("## Ready templates")[0]
    table = "\n".join(line for line in before_ready.splitlines() if line.startswith("| "))
    assert table.count("\n") == 4
    assert table in page
    runs = re.findall(r"```console\n\$ python tools/tiny_server.*?```", readme, re.DOTALL)
    assert len(runs) == 2
    assert all(run in page for run in runs)
    tutorial = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| (\d+) \| (\d+) \| (\d+) \|$", tutorial, re.M)
    assert len(rows) == 6
    for turn, prompt, ideal, cached in rows:
        assert re.search(
            rf"^ +{turn} \| +{prompt} \| +\d+ \| +\d+ \| +{ideal} \| +{cached} \| +{cached} \|",
            page,
            re.M,
        )


def test_every_option_named_exists() -> None:
    known = {option for command in _commands(templatefix) for option in _options(command)}
    for page in pages():
        # Blocks are run; what is left are options in running text.
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
        named = set(re.findall(r"(?<![-\w])--[a-z][a-z-]+", text.replace("<!--", "")))
        assert named <= known | _OTHERS, page.name


def _commands(command: click.Command) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    found = (command.get_command(context, name) for name in command.list_commands(context))
    return [each for one in found if one is not None for each in _commands(one)]


def _options(command: click.Command) -> list[str]:
    return [name for each in command.params for name in (*each.opts, *each.secondary_opts)]


def test_every_input_of_the_action_is_in_the_table_of_its_page() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| `?([^|`]+)`? \|$", page, re.M)
    assert {name: value.strip() for name, value in rows} == {
        name: each["default"] or "none" for name, each in action["inputs"].items()
    }
