"""What the pages in docs/ paste is what the program prints."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import packages
from tests.corpus import corpus_directory

ROOT = Path(__file__).resolve().parent.parent
ANSWERS = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```console\n\$ templatefix (.*?)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


def _printed(words: list[str], cwd: Path) -> str:
    """What a command prints: the report on stderr where there is nothing on standard output."""
    environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=environment)
    assert ended.returncode == 0, ended.stderr
    return (ended.stdout or ended.stderr).rstrip("\n")


def test_the_answers_on_qwen3_are_real_ones(tmp_path: Path) -> None:
    template = packages.or_skip(packages.qwen3_template)
    model = tmp_path / "Qwen3-8B"
    shutil.copytree(packages.or_skip(packages.qwen3_tokenizer), model)
    (model / "chat_template.jinja").write_text(template, encoding="utf-8")
    blocks = _BLOCK.findall(ANSWERS)
    assert [command.split()[0] for command, _ in blocks] == ["patch", "serve-args"]
    for command, shown in blocks:
        words = [sys.executable, "-m", "templatefix", *shlex.split(command)]
        assert _printed(words, tmp_path) == shown


@pytest.mark.corpus
def test_the_table_of_workloads_is_the_one_that_the_tool_prints() -> None:
    if corpus_directory() is None:
        pytest.skip("the corpus is absent")
    shown = ANSWERS.partition("tools/workloads.py` -->\n")[2].partition("\n<!-- end -->")[0]
    tool = [sys.executable, str(ROOT / "tools" / "workloads.py")]
    assert _printed(tool, ROOT) == shown


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
