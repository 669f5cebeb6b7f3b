"""The documentation's site builds without a warning, and has what is written elsewhere."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from templatefix.rules import RULES
from tests.docs.blocks import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="the extra docs is not installed")
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return built


def test_every_rule_has_its_page(site: Path) -> None:
    for rule in RULES.values():
        page = html.unescape((site / "rules" / f"{rule.code.lower()}.html").read_text("utf-8"))
        assert f"{rule.code} {rule.name}" in page
        assert rule.summary in page
    overview = (site / "rules.html").read_text("utf-8")
    assert set(re.findall(r'href="rules/(tf\d+)\.html"', overview)) == {c.lower() for c in RULES}


def test_the_command_line_the_library_and_the_schema_are_there(site: Path) -> None:
    commands = (site / "cli.html").read_text("utf-8")
    assert "--strict-coverage" in commands
    assert "--reset-local-cache" in commands
    library = (site / "library.html").read_text("utf-8")
    assert 'id="templatefix.library.simulate"' in library
    assert ":func:" not in library
    schema = (site / "json.html").read_text("utf-8")
    assert "<code>hit_tokens</code>" in schema
    assert "<code>predicted_of_prompts_alone</code>" in schema
    assert (site / "schema.json").read_bytes() == (
        ROOT / "templatefix" / "report" / "schema.json"
    ).read_bytes()


def test_a_page_asks_nothing_of_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not loaded, page.name
