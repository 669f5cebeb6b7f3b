"""The keys that docs/json.md lists by hand are those of the documents; others have a schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from templatefix.cli.program import templatefix
from tests.docs.blocks import ROOT
from tests.docs.folder import TEMPLATE

PAGE = (ROOT / "docs" / "json.md").read_text("utf-8")


def _listed(title: str) -> set[str]:
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


@pytest.fixture
def template(tmp_path: Path) -> Path:
    file = tmp_path / "chat_template.jinja"
    file.write_text(TEMPLATE, "utf-8")
    return file


def _written(*words: object) -> dict[str, Any]:
    """What a command writes to the file that is named last."""
    *_, file = words
    code = templatefix.main([str(word) for word in words], standalone_mode=False)
    assert code in (0, None)
    document: dict[str, Any] = json.loads(Path(str(file)).read_text("utf-8"))
    return document


#: What the sections on patch and survey say in a sentence.
_VERSIONS = {"schema", "tool_version", "presentation", "renderer", "clock", "versions"}


def test_keys_of_patch(template: Path, tmp_path: Path) -> None:
    words = ("patch", template, "--max-examples", "0", "-q", "--out", tmp_path / "out.jinja")
    document = _written(*words, "--report", tmp_path / "report.json")
    assert set(document) == _listed("Patch") | _VERSIONS


def test_keys_of_survey(template: Path, tmp_path: Path) -> None:
    words = ("survey", template, "--jobs", "1", "--max-examples", "0", "-q")
    document = _written(*words, "--report", tmp_path / "report.json")
    assert set(document) == _listed("Survey") | _VERSIONS


def test_keys_of_serve(template: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve-args", str(template), "--model", "m", "--emit", "json", "-q"]
    templatefix.main(words, standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert set(document) == _listed("Serve") | {"schema", "tool_version"}
