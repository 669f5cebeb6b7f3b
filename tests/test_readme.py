"""What README shows is what the program prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from templatefix.api import read_conversation
from tests import packages

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "templatefix", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )


def test_the_run_on_qwen3_is_a_real_one(tmp_path: Path) -> None:
    template = packages.or_skip(packages.qwen3_template)
    tokenizer = packages.or_skip(packages.qwen3_tokenizer)
    model = tmp_path / "Qwen3-8B"
    shutil.copytree(tokenizer, model)
    (model / "chat_template.jinja").write_text(template, encoding="utf-8")

    printed = _run("check", "--quiet", "Qwen3-8B", cwd=tmp_path)

    shown = README.partition("$ templatefix check --quiet Qwen3-8B\n")[2].partition("\n```")[0]
    assert printed.stdout.rstrip("\n") == shown
    assert printed.returncode == 1


def test_the_table_of_rules_is_the_one_that_the_program_prints() -> None:
    begin, end = "rules --output-format markdown` -->\n", "\n<!-- end of rules -->"
    shown = README.partition(begin)[2].partition(end)[0]
    assert shown == _run("rules", "--output-format", "markdown").stdout.rstrip("\n")


def test_the_table_of_ready_templates_is_the_one_that_the_program_prints() -> None:
    begin, end = "ready list --output-format markdown` -->\n", "\n<!-- end of ready -->"
    shown = README.partition(begin)[2].partition(end)[0]
    assert shown == _run("ready", "list", "--output-format", "markdown").stdout.rstrip("\n")


def test_the_measured_figures_are_those_of_the_page_that_has_all_of_them() -> None:
    """``tests/vllm/test_measured.py`` holds that page to the prediction."""
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    section = README.partition("\n## Measured\n")[2].partition("\n## ")[0]
    (output,) = re.findall(r"```console\n.*?```\n", section, re.DOTALL)
    table = "\n".join(line for line in section.splitlines() if line.startswith("| "))
    assert output in page
    assert table in page


def test_the_first_command_ends_well_and_shows_what_it_is_for() -> None:
    command = re.search(r"&& \.venv/bin/templatefix (.*)", README)
    assert command is not None
    printed = _run(*command[1].split())
    assert printed.returncode == 0, printed.stderr
    assert "TF101" in printed.stdout
    assert "TF102" in printed.stdout


def test_the_second_command_is_the_one_that_continuous_integration_runs() -> None:
    commands = re.findall(r"^\$ (python3 -m venv .*)$", README, re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_conversation_shown_is_accepted() -> None:
    shown = re.search(r"```json\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert read_conversation(shown[1], "README")["messages"]
    json.loads(shown[1])


def test_every_option_named_exists() -> None:
    known = {
        option
        for command in ("check", "patch", "survey", "serve-args", "rules", "verify")
        for option in re.findall(r"--[a-z][a-z-]+", _run(command, "--help").stdout)
    }
    shown = README.partition("## Recipes")[2].partition("## Limits")[0]
    named = set(re.findall(r"(?<![-\w])--[a-z][a-z-]+", shown))
    servers = {
        "--default-chat-template-kwargs",
        "--enable-cache-report",
        "--enable-prompt-tokens-details",
        "--tokenizer-mode",
        "--trust-request-chat-template",
    }
    assert named <= known | servers | {"--store"}  # of tools/tiny_server.py
