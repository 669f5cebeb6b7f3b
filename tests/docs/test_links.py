"""Links between files of the repository lead somewhere, and so do their anchors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, pages

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.M)


def _text(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)


def _anchors(page: Path) -> set[str]:
    """The anchors of headings, as repository hosts and mkdocs spell them."""
    titles = (re.sub(r"[`*]|\[|\]\([^)]*\)", "", title) for title in _HEADING.findall(_text(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_text(page)):
        if re.match(r"https?://", link):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert file.is_relative_to(ROOT), link
        if anchor:
            assert anchor in _anchors(file), link


def test_every_page_is_linked_from_readme_or_the_site() -> None:
    readme, site = (ROOT / "README.md").read_text("utf-8"), (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in site, page.name
        assert f"docs/{page.name})" in readme or page.name == "cli.md", page.name
