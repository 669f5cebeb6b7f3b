"""The hook for pre-commit: the files it takes, and how quiet it is about others."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stub import ROOT, Stub
from tests.report.samples import clean, report

yaml = pytest.importorskip("yaml")

BREAKING = """\
{%- for message in messages %}
{%- if message.role == 'assistant' and not loop.last %}
{{- '<|im_start|>assistant\\n' + message.content | upper + '<|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""
CLEAN = BREAKING.replace(" | upper", "")
PAGE = "<h1>{{ title }}</h1>{% for entry in entries %}<p>{{ entry.text }}</p>{% endfor %}\n"


def hook() -> dict[str, Any]:
    [only] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("chat.jinja", True),
        ("a/b/chat_template.jinja2", True),
        ("a/x.j2", True),
        ("tokenizer_config.json", True),
        ("models/a/tokenizer_config.json", True),
        ("models/a/chat_template.json", True),
        ("my_tokenizer_config.json", False),
        ("a/chat_template.json.bak", False),
        ("package.json", False),
        ("jinja", False),
    ],
)
def test_the_hook_takes_templates_and_configurations(path: str, taken: bool) -> None:
    assert bool(re.search(hook()["files"], path)) is taken


def test_its_entry_is_a_command_that_we_have_and_that_is_silent(stub: Stub) -> None:
    program_name, *args = shlex.split(hook()["entry"])
    assert program_name == "templatefix"
    skipped = clean(verdict="not-evaluated", runs=(), skipped="not a chat template")
    program = stub({"page.j2": skipped, "good.jinja": clean(), "bad.jinja": report()})
    for files, code in ((["page.j2"], 0), (["page.j2", "good.jinja"], 0), (["bad.jinja"], 1)):
        ended = program(*args, *files)
        assert ended.exit_code == code
        assert (ended.output == "") is (code == 0)
    options = program.calls[-1].options, program.calls[-1].source
    assert (options[0].max_examples, options[1].offline) == (0, True)


def test_the_hook_on_real_files(tmp_path: Path) -> None:
    files = {
        "page.j2": PAGE,
        "django.jinja2": "{% load static %}{% url 'x' %}",
        "ansible.j2": "{% for h in groups['all'] %}caf\xe9 {{ h }}{% endfor %}",
        "empty.j2": "",
        "good.jinja": CLEAN,
        "tokenizer_config.json": '{"model_max_length": 10, "chat_template": null}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="latin-1")
    assert run_hook(tmp_path, *files) == (0, "")
    for name in files:
        assert run_hook(tmp_path, name) == (0, ""), name
    (tmp_path / "bad.jinja").write_text(BREAKING)
    code, output = run_hook(tmp_path, *files, "bad.jinja")
    assert code == 1
    assert "bad.jinja" in output
    assert "TF104" in output
    assert not any(name in output for name in files)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken.jinja", "{% for m in messages %}"),
        ("tokenizer_config.json", '{"chat_template": "{{ messages"'),
        ("latin.j2", "{{ messages }} caf\xe9"),
    ],
)
def test_the_hook_still_reports_what_is_wrong_with_ours(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="latin-1")
    code, output = run_hook(tmp_path, name)
    assert code in (1, 2)
    assert output.startswith(f"{name}")
    assert "Traceback" not in output


def run_hook(folder: Path, *files: str) -> tuple[int, str]:
    args = shlex.split(hook()["entry"])[1:]
    ended = subprocess.run(
        [sys.executable, "-m", "templatefix", *args, *files],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.mark.network
def test_pre_commit_itself_runs_the_hook(tmp_path: Path) -> None:
    """Needs ``pre-commit`` and an index from which it can install our dependencies."""
    pre_commit = shutil.which("pre-commit")
    if pre_commit is None:
        pytest.skip("pre-commit is not installed")
    ours = tmp_path / "templatefix"
    git(tmp_path, "clone", "-q", str(ROOT), str(ours))
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q")
    head = git(ours, "rev-parse", "HEAD").strip()
    (project / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {ours}\n  rev: {head}\n  hooks:\n  - id: templatefix\n"
    )
    subprocess.run([pre_commit, "install"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    for name, text in {"page.j2": PAGE, "good.jinja": CLEAN}.items():
        (project / name).write_text(text)
    git(project, "add", ".")
    git(project, "commit", "-m", "clean")
    (project / "bad.jinja").write_text(BREAKING)
    git(project, "add", ".")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        git(project, "commit", "-m", "breaking")
    assert "TF104" in refused.value.stderr + refused.value.stdout


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    return subprocess.run(
        ["git", *identity, *args],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
