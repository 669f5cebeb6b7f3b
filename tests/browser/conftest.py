"""One browser and one set of pages for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from templatefix.api import (
    CheckOptions,
    SourceOptions,
    check_target,
    patch_template,
    the_template,
)
from templatefix.findings.outcome import Report
from templatefix.patching.repair import PatchOptions
from templatefix.policy import POLICIES
from templatefix.report.page.page import folder, page
from tests.browser.chromium import Chromium, installed
from tests.example import EXAMPLE
from tests.report.page_samples import full
from tests.report.samples import EDITION, clean, unreadable


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    found = installed()
    if found is None:
        pytest.skip("chromium and chromedriver are not installed")
    made = Chromium(*found)
    yield made
    made.driver.quit()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: TEMPLATEFIX_SCREENSHOTS names a folder to look at them in."""
    named = os.environ.get("TEMPLATEFIX_SCREENSHOTS")
    if named is None:
        return tmp_path_factory.mktemp("shots")
    Path(named).mkdir(parents=True, exist_ok=True)
    return Path(named)


@pytest.fixture(scope="session")
def example() -> Report:
    """The example that ships with the project, checked and repaired for real."""
    source = SourceOptions(offline=True)
    (checked,) = check_target(str(EXAMPLE), source, CheckOptions(full=True))
    template = the_template(str(EXAMPLE), source)
    repairs = (
        patch_template(template, PatchOptions(policy=policy, max_examples=0)) for policy in POLICIES
    )
    return replace(checked, repairs=tuple(repairs))


@pytest.fixture(scope="session")
def example_page(example: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page([example], EDITION), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def site(example: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of several reports."""
    made = tmp_path_factory.mktemp("site")
    reports = [
        full(display="models/b/chat_template.jinja"),
        clean(display="models/c/chat_template.jinja"),
        example,
        unreadable("models/nowhere/chat_template.jinja"),
    ]
    for name, text in folder(reports, EDITION, "index.html").items():
        (made / name).write_text(text, encoding="utf-8")
    return made
