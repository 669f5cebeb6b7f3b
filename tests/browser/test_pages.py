"""Pages in a real browser: they open without a word of complaint, and can be read by everyone."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from templatefix.findings.outcome import Report
from templatefix.report.figure.reuse import figure_of
from templatefix.report.figure.svg import svg
from templatefix.report.page.page import page
from tests.browser.chromium import DESKTOP, PHONE, Chromium, Theme
from tests.report.page_samples import full, with_texts
from tests.report.samples import EDITION

pytestmark = pytest.mark.browser

THEMES: tuple[Theme, ...] = ("light", "dark")
#: What WCAG 2 asks of text (AA).
ENOUGH = 4.5

_BOXES = """
return Array.from(document.querySelectorAll('.panels svg rect.%s'))
  .map((each) => each.getBoundingClientRect())
  .filter((box) => box.width > 1 && box.height > 1).length
"""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_report_opens_in_both_themes_at_every_width(
    chromium: Chromium, example_page: Path, shots: Path, theme: Theme, width: int
) -> None:
    chromium.show(example_page, theme, width)
    assert chromium.errors() == []
    assert chromium.overflow() <= 0
    for part in ("reused", "again", "new"):
        assert chromium.run(_BOXES % part) > 0, part
    # Everything is shown for the picture, and for the contrast of what is folded away.
    chromium.run("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    assert chromium.overflow() <= 0
    worst, whose = chromium.contrasts()[-1]
    assert worst >= ENOUGH, whose
    picture = chromium.screenshot(shots / f"report-{theme}-{width}.png")
    assert len(picture) > 20_000


def test_themes_differ(chromium: Chromium, example_page: Path) -> None:
    grounds = []
    for theme in THEMES:
        chromium.show(example_page, theme)
        grounds.append(chromium.run("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


def test_the_streams_are_aligned(chromium: Chromium, example_page: Path) -> None:
    """Of a pair, the stream's token stands above the prompt's, at the same place of the line."""
    chromium.show(example_page)
    pairs = chromium.run(
        """
        return Array.from(document.querySelectorAll('.tokens .moved')).map((pair) => {
          const [one, other] = Array.from(pair.children).map((i) => i.getBoundingClientRect());
          return [one.left - other.left, other.top - one.bottom, pair.children[0].title];
        });
        """
    )
    assert len(pairs) > 20
    assert all(abs(left) < 1 and 0 <= gap < 8 and title for left, gap, title in pairs)
    gone = chromium.run(
        "return Array.from(document.querySelectorAll('.tokens .gone i.s'))"
        ".map((i) => i.textContent)"
    )
    assert {"<think>", "</think>"} <= set(gone)


def test_ids_are_shown_by_the_keyboard_alone(chromium: Chromium, example_page: Path) -> None:
    chromium.show(example_page)
    seen = """
      const token = document.querySelector('.tokens i[title]');
      return getComputedStyle(token, '::after').content;
    """
    assert chromium.run(seen) == "none"
    box = chromium.driver.find_element(By.CSS_SELECTOR, "input.ids")
    box.send_keys(Keys.SPACE)
    assert chromium.run(seen).strip('"').isdigit()


def test_on_paper_nothing_is_folded_away(chromium: Chromium, example_page: Path) -> None:
    chromium.show(example_page)
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    heights = chromium.run(
        """
        return Array.from(document.querySelectorAll('details > :not(summary, .noprint)'))
          .map((each) => each.getBoundingClientRect().height);
        """
    )
    assert heights
    assert min(heights) > 0


def test_hostile_texts_do_nothing(chromium: Chromium, tmp_path: Path) -> None:
    text = "</script><script>window.bad=1</script><img src=x onerror='window.bad=1'>\"'`{{7*7}}"
    hostile: Report = with_texts(full(), text)
    file = tmp_path / "hostile.html"
    file.write_text(page([hostile], EDITION), encoding="utf-8")
    chromium.show(file)
    assert chromium.run("return window.bad") is None
    assert chromium.run("return document.scripts.length + document.images.length") == 0
    assert chromium.errors() == []


def test_the_index_sorts_and_filters(chromium: Chromium, site: Path, shots: Path) -> None:
    chromium.show(site / "index.html")
    assert chromium.errors() == []
    rows = "return Array.from(document.querySelectorAll('#rows tbody tr')).filter((r) => !r.hidden)"
    lost = rows + ".map((r) => Number(r.cells[3].dataset.sort))"
    before = chromium.run(lost)
    headers = chromium.driver.find_elements(By.CSS_SELECTOR, "#rows thead button")
    headers[3].send_keys(Keys.ENTER)
    assert chromium.run(lost) == sorted(before)
    headers[3].click()
    assert chromium.run(lost) == sorted(before, reverse=True)
    assert headers[3].find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    words = chromium.driver.find_element(By.ID, "words")
    words.send_keys("TF102 rung")
    names = rows + ".map((r) => r.cells[0].textContent)"
    found = chromium.run(names)
    assert 0 < len(found) < len(before)
    words.clear()
    words.send_keys(" ")
    choice = chromium.driver.find_element(By.ID, "verdict")
    choice.send_keys("preserving")
    assert chromium.run(names) == ["models/c"]
    assert chromium.run("return document.getElementById('count').textContent") == "1 of 4"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_index_opens_in_both_themes_at_every_width(
    chromium: Chromium, site: Path, shots: Path, theme: Theme, width: int
) -> None:
    chromium.show(site / "index.html", theme, width)
    assert chromium.overflow() <= 0
    worst, whose = chromium.contrasts()[-1]
    assert worst >= ENOUGH, whose
    chromium.screenshot(shots / f"index-{theme}-{width}.png")


def test_the_index_is_a_table_without_scripts(chromium: Chromium, site: Path) -> None:
    chromium.show(site / "index.html", script=False)
    rows = chromium.driver.find_elements(By.CSS_SELECTOR, "#rows tbody tr")
    assert [row.is_displayed() for row in rows] == [True] * 4
    assert not chromium.driver.find_element(By.ID, "filter").is_displayed()
    chromium.driver.find_element(By.CSS_SELECTOR, "#rows tbody a").click()
    assert chromium.driver.find_element(By.TAG_NAME, "h1").text == "models/b/chat_template.jinja"


@pytest.mark.parametrize("theme", THEMES)
def test_the_figure_alone_opens(
    chromium: Chromium, example: Report, tmp_path: Path, shots: Path, theme: Theme
) -> None:
    file = tmp_path / "figure.svg"
    file.write_text(svg(figure_of(example, "the example")), encoding="utf-8")
    chromium.show(file, theme)
    assert chromium.errors() == []
    ground, ink = chromium.run(
        """
        const fill = (name) => getComputedStyle(document.querySelector(name)).fill;
        return [fill('.ground'), fill('.title')];
        """
    )
    assert (ground, ink) == {
        "light": ("rgb(255, 255, 255)", "rgb(27, 31, 36)"),
        "dark": ("rgb(13, 17, 23)", "rgb(230, 237, 243)"),
    }[theme]
    outside = chromium.run(
        """
        const all = document.documentElement.getBoundingClientRect();
        return Array.from(document.querySelectorAll('text, rect:not(pattern rect)'))
          .map((each) => each.getBoundingClientRect())
          .filter((box) => box.right > all.right + 1 || box.bottom > all.bottom + 1).length;
        """
    )
    assert outside == 0
    chromium.screenshot(shots / f"figure-{theme}.png")
