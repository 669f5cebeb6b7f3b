"""The figure: whose turns it shows, and that its bars are the figures of the report."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from templatefix.findings.run_outcome import TurnRow
from templatefix.report.figure.layout import drawings
from templatefix.report.figure.reuse import Bar, bar, figure_of
from templatefix.report.figure.svg import svg
from templatefix.report.figure.text import figure_lines
from templatefix.report.page.cost import cost
from templatefix.report.visible import cells
from tests.report.page_samples import PATCHED, SHIPPED, full, repaired
from tests.report.samples import clean, report, run, unreadable


def test_a_bar_is_the_whole_prompt() -> None:
    assert bar(SHIPPED[0]) == Bar(0, 0, 36)
    assert bar(SHIPPED[1]) == Bar(32, 16, 27)
    for row in (*SHIPPED, *PATCHED):
        assert bar(row).total == row.prompt_tokens


def test_a_mode_is_told_by_the_chat_that_breaks() -> None:
    runs = (
        run("a", scenario="reasoning-chat", preserving=True, turns=PATCHED),
        run("b", scenario="tool-loop", turns=SHIPPED[:2]),
        run("c", scenario="plain-chat", turns=SHIPPED),
        run("d", scenario="whitespace", core=False, turns=SHIPPED),
        run("e", scenario="reasoning-chat", client="reasoning-dropping", turns=SHIPPED),
        run("f", scenario="plain-chat", kwargs={}, preserving=True, turns=PATCHED),
    )
    figure = figure_of(report(runs=runs), "t")
    told = [(panel.modes, panel.scenario) for panel in figure.panels]
    assert told == [(("enable_thinking=true",), "plain-chat"), (("default mode",), "plain-chat")]


def test_the_mildest_policy_that_repairs_a_mode_is_shown() -> None:
    breaks = repaired(policy="lossless", runs=(run(turns=SHIPPED),))
    figure = figure_of(full(repairs=(breaks, repaired())), "t")
    assert figure.panels[0].policy == "keep-reasoning"
    assert figure.panels[0].patched == PATCHED
    assert not figure_of(full(repairs=(breaks,)), "t").panels[0].patched


def test_modes_with_the_same_figures_share_a_panel() -> None:
    runs = tuple(run(str(n), kwargs={"effort": n}, turns=SHIPPED) for n in range(9))
    figure = figure_of(report(runs=runs), "t")
    assert len(figure.panels) == 1
    assert len(figure.panels[0].modes) == 9
    longer = tuple(
        replace(each, turns=(*SHIPPED[:3], replace(SHIPPED[3], prompt_tokens=141 + n)))
        for n, each in enumerate(runs)
    )
    assert figure_of(report(runs=longer), "t").more_modes == 3


def test_segments_are_as_long_as_their_tokens() -> None:
    (drawing,) = drawings(figure_of(full(), "t"))
    scales = {round(s.width / s.tokens, 2) for row in drawing.rows for s in row.segments}
    assert max(scales) - min(scales) < 0.02
    for row in drawing.rows:
        assert sum(segment.tokens for segment in row.segments) == row.total
        assert row.end < drawing.width
    assert [tokens for _, tokens in drawing.ticks] == [0, 50, 100, 150]


def test_the_svg_is_xml_that_names_itself_and_holds_no_markup_of_others() -> None:
    text = svg(figure_of(full(), "<b>&\x1b"))
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{space}title")]
    assert titles[0] == "Reuse of the cache, turn by turn: <b>&\\x1b"
    assert "turn 2: 16 tokens computed again" in titles
    assert "turn 4, patched: 176 tokens reused from the cache" in titles
    assert not list(root.iter(f"{space}script"))


@pytest.mark.parametrize("width", [24, 40, 77, 100])
def test_bars_in_a_terminal_fit_and_have_the_figures(width: int) -> None:
    lines = list(figure_lines(figure_of(full(), "t"), width))
    assert max(map(cells, lines)) <= width
    text = "\n".join(lines)
    assert "32 + 16 + 27" in text
    assert "176 + 0 + 23" in text


def test_bars_are_as_long_as_their_tokens() -> None:
    lines = list(figure_lines(figure_of(full(), "t"), 80))
    last = next(line for line in lines if "176 + 0 + 23" in line)
    assert last.count("█") + last.count("░") == 36
    assert last.count("█") == round(176 / 199 * 36)


def test_what_loses_nothing_has_no_bars_in_the_terminal() -> None:
    assert not list(figure_lines(figure_of(clean(), "t"), 80))
    assert not figure_of(unreadable(), "t").panels


def test_a_png_is_drawn_with_matplotlib(recwarn: pytest.WarningsRecorder) -> None:
    pytest.importorskip("matplotlib")
    from templatefix.report.figure.png import png

    assert png(figure_of(full(), "$x_1$ <&> 漢")).startswith(b"\x89PNG\r\n")
    assert not [each for each in recwarn if "Glyph" in str(each.message)]


def test_the_cost_of_a_lost_answer_does_not_grow_with_the_turns() -> None:
    (panel,) = figure_of(full(), "t").panels
    told = cost(panel)
    assert told is not None
    assert told.growth == "answer"
    assert told.again == 16
    assert told.share == pytest.approx((12 + 18) / (32 + 35))
    assert told.extra == pytest.approx((199 - 140) / 3)
    assert told.tokens(32_000, 32) == round(told.share * 31_000)


def test_the_cost_of_a_changed_head_grows_with_the_turns() -> None:
    rows = (
        TurnRow(1, 100, 110, None, None, None, None),
        TurnRow(2, 200, 210, 110, 10, 0, 96, 110, 96),
        TurnRow(3, 300, 310, 210, 10, 0, 208, 210, 208),
        TurnRow(4, 400, 410, 310, 10, 0, 304, 310, 304),
    )
    (panel,) = figure_of(report(runs=(run(turns=rows),)), "t").panels
    told = cost(panel)
    assert told is not None
    assert told.growth == "head"
    eight, sixteen = told.tokens(32_000, 9), told.tokens(32_000, 17)
    assert eight is not None
    assert sixteen == pytest.approx(2 * eight, abs=1)


def test_nothing_is_concluded_from_turns_that_differ() -> None:
    rows = (*SHIPPED[:3], replace(SHIPPED[3], reuse_tokens=121, recomputed_tokens=0))
    (panel,) = figure_of(report(runs=(run(turns=rows),)), "t").panels
    told = cost(panel)
    assert told is not None
    assert told.growth == "mixed"
    assert told.tokens(8000, 8) is None


def test_a_heading_is_no_wider_than_its_panel() -> None:
    runs = tuple(run(str(n), kwargs={"a_long_kwarg": "x" * 30, "n": n}) for n in range(3))
    (drawing,) = drawings(figure_of(report(runs=runs), "t"))
    assert drawing.subtitle.startswith('a_long_kwarg="xxx')
    assert len(drawing.subtitle) <= 48
