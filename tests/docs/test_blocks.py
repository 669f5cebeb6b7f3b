"""Code blocks that are no commands: Python runs, and data is what it claims to be."""

from __future__ import annotations

import doctest
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from templatefix.api import read_conversation
from templatefix.settings import PROJECT_FILE, read_settings
from tests.docs import exempt
from tests.docs.blocks import ROOT, Block, blocks, pages
from tests.docs.folder import fill

BLOCKS = [block for page in pages() for block in blocks(page)]


def _of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def _id(block: Block) -> str:
    return f"{block.page}:{block.line}"


def _foreign(block: Block) -> bool:
    return any(re.search(rf"(?:import|from) {name}\b", block.text) for name in exempt.MODULES)


@pytest.mark.parametrize("page", sorted({block.page for block in _of("python")}))
def test_python_of_a_page_says_what_it_prints(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fill(tmp_path))
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE)
    parser = doctest.DocTestParser()
    for block in _of("python"):
        if block.page == page and not _foreign(block):
            test = parser.get_doctest(block.text, names, page, page, block.line)
            assert test.examples, "a block without a prompt runs nothing"
            test.globs = names
            said: list[str] = []
            failed = runner.run(test, out=said.append, clear_globs=False).failed
            assert not failed, "".join(said)


@pytest.mark.parametrize("block", _of("json"), ids=_id)
def test_json_is_a_conversation(block: Block) -> None:
    assert read_conversation(block.text, block.page)["messages"]
    json.loads(block.text)


@pytest.mark.parametrize("block", _of("yaml"), ids=_id)
def test_yaml_is_for_the_hook_or_for_the_action(block: Block) -> None:
    shown = yaml.safe_load(block.text)
    if "repos" in shown:
        hooks = [hook["id"] for repo in shown["repos"] for hook in repo["hooks"]]
        offered = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
        assert hooks == [hook["id"] for hook in offered]
        return
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    used = [step for job in shown["jobs"].values() for step in job["steps"] if "with" in step]
    assert used
    assert all(set(step["with"]) <= set(action["inputs"]) for step in used)


@pytest.mark.parametrize("block", _of("toml"), ids=_id)
def test_toml_is_a_settings_file(block: Block, tmp_path: Path) -> None:
    (tmp_path / PROJECT_FILE).write_text(block.text, "utf-8")
    assert tomllib.loads(block.text)["tool"]["templatefix"]
    read_settings(tmp_path / PROJECT_FILE)


def test_every_language_is_run_or_exempt() -> None:
    assert {block.language for block in BLOCKS} <= {"console", "python", *exempt.LANGUAGES}
