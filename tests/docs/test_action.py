"""``action.yml``: its steps, and its check step as a runner would run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.docs.blocks import ROOT
from tests.docs.folder import TEMPLATE

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
(CHECK,) = (step for step in STEPS if step.get("id") == "check")


def _run(folder: Path, **inputs: str) -> tuple[int, dict[str, str]]:
    """The check step's exit code and outputs; ``inputs`` have an action's names."""
    given = {name: each["default"] for name, each in ACTION["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    program = folder / "temp" / "templatefix" / "bin" / "templatefix"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m templatefix "$@"\n', "utf-8")
    program.chmod(0o755)
    outputs = folder / "outputs"
    outputs.touch()
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: given[found[1]], value)
        for name, value in CHECK["env"].items()
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", CHECK["run"]],
        cwd=folder,
        env={
            **os.environ,
            **variables,
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_OUTPUT": str(outputs),
        },
        capture_output=True,
        check=False,
    )
    pairs = (line.partition("=") for line in outputs.read_text("utf-8").splitlines())
    return done.returncode, {name: value for name, _, value in pairs}


def test_findings_are_uploaded_before_the_job_fails(tmp_path: Path) -> None:
    (tmp_path / "a chat.jinja").write_text(TEMPLATE, "utf-8")
    code, outputs = _run(tmp_path, args="--no-search --offline", fail_on="error")
    assert (code, outputs["code"]) == (0, "1")
    log = json.loads(Path(outputs["sarif"]).read_text("utf-8"))
    assert {result["ruleId"] for result in log["runs"][0]["results"]} >= {"TF101"}
    names = [step.get("id") or step.get("name") or step["uses"] for step in STEPS]
    upload, verdict = STEPS[names.index("check") + 1 :]
    assert upload["uses"].startswith("github/codeql-action/upload-sarif@")
    assert verdict["run"] == 'exit "$CODE"'


def test_what_cannot_be_checked_fails_at_once(tmp_path: Path) -> None:
    code, outputs = _run(tmp_path, args="--no-such-option")
    assert code == 2
    assert outputs == {}


def test_an_input_is_no_part_of_the_script(tmp_path: Path) -> None:
    _run(tmp_path, targets="$(touch made) `touch made` ; touch made", args="--offline")
    assert not (tmp_path / "made").exists()
    for step in STEPS:
        assert "${{" not in step.get("run", "")


def test_the_action_is_one_that_a_runner_takes() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(each["description"] and "default" in each for each in ACTION["inputs"].values())
    for step in STEPS:
        assert ("run" in step) != ("uses" in step)
        assert "uses" in step or step["shell"] == "bash"
        for words in re.findall(r"\$\{\{ (.+?) \}\}", json.dumps(step)):
            kind, _, name = words.partition(".")
            known = {
                "inputs": set(ACTION["inputs"]),
                "steps": {"check.outputs.sarif", "check.outputs.code"},
                "github": {"action_path"},
            }
            assert name in known[kind], words
