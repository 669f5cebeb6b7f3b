"""The page: whole, small, of nothing but our own markup, and with all that a reader needs."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace

import pytest

from templatefix.findings.finding import Fix, Location
from templatefix.findings.outcome import Report
from templatefix.report.page.page import folder, page
from templatefix.report.page.source import Stretch, frame
from templatefix.report.visible import visible
from tests.report.page_samples import Markup, full, repaired, streams, token, with_texts
from tests.report.samples import EDITION, SOURCE, clean, finding, report, traffic, unreadable

INDEX = "start.html"
MEGABYTE = 1_000_000
HOSTILE = (
    "</title></style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}"
    "\x1b[31m\u202e&lt;"
)

STATES = {
    "breaks": full(),
    "preserving": clean(),
    "unreadable": unreadable(),
    "syntax": unreadable("t.jinja", "TF902"),
    "skipped": report(skipped="not a chat template", verdict="not-evaluated", runs=(), findings=()),
    "recorded": report(recorded=traffic(), runs=()),
    "failed": full(repairs=(repaired(status="failed", text=None, rung=None, runs=()),)),
    "unchanged": full(repairs=(repaired(status="unchanged", text=SOURCE, rung=None, runs=()),)),
    "kwarg": full(repairs=(repaired(rung=1, flag_kwargs={"keep": True}),)),
    "stand-in": full(tokenizer_approximate=True, attention="hybrid"),
}


def shown(*reports: Report) -> Markup:
    return Markup(page(list(reports), EDITION))


@pytest.mark.parametrize("state", STATES)
def test_every_page_is_well_formed_and_says_the_verdict(state: str) -> None:
    made = shown(STATES[state])
    assert made.count("h1") == 1
    assert made.count("span", class_="badge") >= 1


def test_a_page_has_all_that_there_is_to_see() -> None:
    made = shown(full())
    assert made.count("svg", class_="figure", role="img") == 1
    assert made.count("rect", class_="again") == 3 + 1  # one for the legend
    assert made.count("mark", class_="cause") == 2
    assert made.count("span", class_="moved") == 2
    assert made.count("span", class_="gone") == 3
    assert made.count("i", class_="s", title="151667") == 1
    assert made.count("div", class_="gone") == made.count("div", class_="came") == 1
    assert made.count("ins") == 1
    for words in ("x > 1", "cached, lost", "rung 2", "Not evaluated", "+30.6", "computed again"):
        assert words in made.text, words


def test_figures_of_the_stand_in_are_marked() -> None:
    assert "~96" in shown(full(tokenizer_approximate=True)).text
    assert "~96" not in shown(full()).text


def test_nothing_of_a_template_or_a_conversation_becomes_markup() -> None:
    hostile = with_texts(full(), HOSTILE)
    hostile = replace(
        hostile,
        source=HOSTILE * 3,
        findings=tuple(
            replace(each, locations=(Location("cause", 1, 3, 1, 40, HOSTILE, HOSTILE),))
            for each in hostile.findings
        ),
    )
    made, plain = shown(hostile), shown(full())
    assert {tag for tag, _ in made.elements} <= {tag for tag, _ in plain.elements}
    assert made.count("img") == made.count("script") == 0
    assert not [name for _, named in made.elements for name in named if name.startswith("on")]
    assert visible(HOSTILE) in made.text
    assert "\x1b" not in page([hostile], EDITION)
    assert "\u202e" not in page([hostile], EDITION)


def test_no_page_asks_for_anything_elsewhere() -> None:
    files = folder([full(), clean()], EDITION, INDEX)
    for name, text in files.items():
        made = Markup(text)
        addresses = [*made.attributes("href"), *made.attributes("src")]
        assert all(a.startswith(("#", "data:")) or a in files for a in addresses), name
        assert not re.search(r"url\((?!#)|@import", text)
        (policy,) = [
            named["content"]
            for tag, named in made.elements
            if tag == "meta" and named.get("http-equiv") == "Content-Security-Policy"
        ]
        assert (policy or "").startswith("default-src 'none'")


def test_a_page_of_many_long_findings_stays_below_a_megabyte() -> None:
    many = tuple((token("  <word>&", i, special=True), None) for i in range(400))
    long = finding(
        streams=streams(pairs=many, common=tuple(token("<&>", i) for i in range(40))),
        message="<" * 100_000,
        explanation="&" * 100_000,
        locations=(Location("cause", 1, 500_000, 1, 500_040),),
        conversation={"messages": [{"role": "user", "content": "<" * 100_000}]},
    )
    source = "{{ '&<>' }}" * 50_000
    made = full(
        findings=(long,) * 300,
        source=source,
        repairs=(repaired(source=source, text=source + "\n" + "<\n" * 3_000),) * 2,
    )
    text = page([made], EDITION)
    Markup(text)
    assert len(text.encode()) < MEGABYTE


def test_what_is_left_out_of_an_alignment_is_counted() -> None:
    pairs = tuple((token("a", i), token("b", i)) for i in range(300))
    made = shown(full(findings=(finding(streams=streams(pairs=pairs)),)))
    assert f"{300 - 160 + 3} more of the stream" in made.text
    assert f"{300 - 160 + 2 + 40} more of the prompt" in made.text


def test_whitespace_of_tokens_can_be_seen() -> None:
    text = page([full()], EDITION)
    assert '<i title="10">·lies·there</i>' in text
    assert '<i title="271">⏎⏎</i>' in text


def test_the_line_with_the_guilty_place_is_marked_where_it_is() -> None:
    lines = {line.number: line for line in frame(SOURCE, finding().locations)}
    assert lines[3].stretches == (
        Stretch("        {%- if "),
        Stretch("loop.index0 > last_question", "cause"),
        Stretch(" %}"),
    )
    assert lines[3].notes[0][0] == "cause"
    assert (
        Stretch("message.content", "printed-now")
        in frame(SOURCE, [Location("printed-now", 6, 13, 6, 28)])[2].stretches
    )


def test_a_line_that_is_at_fault_as_a_whole_is_marked_as_a_whole() -> None:
    lines = frame(SOURCE, [Location("source", 3, 1, 3, 1)])
    assert lines[2].stretches == (
        Stretch("        "),
        Stretch("{%- if loop.index0 > last_question %}", "source"),
    )
    assert not lines[2].notes


def test_a_template_on_one_line_is_cut_around_the_place() -> None:
    source = "a" * 5000 + "GUILTY" + "b" * 5000
    (line,) = frame(source, [Location("cause", 1, 5001, 1, 5007)])
    shown = "".join(stretch.text for stretch in line.stretches)
    assert "aGUILTYb" in shown
    assert len(shown) < 500


def test_several_reports_share_a_page_with_an_index() -> None:
    made = shown(full(), clean(display="models/other.jinja"), unreadable())
    assert made.count("h1") == 4
    assert made.count("table", id="rows") == 1


def test_the_index_leads_to_a_page_for_each_report() -> None:
    reports = [
        full(display="models/small/chat_template.jinja"),
        clean(display="models/other.jinja"),
        unreadable("models/x/../<b>.jinja"),
    ]
    skipped = report(skipped="not a chat template", findings=(), runs=())
    files = folder([*reports, skipped], EDITION, INDEX)
    index = Markup(files[INDEX])
    assert set(index.attributes("href")) == {"data:,", *(files.keys() - {INDEX})}
    assert len(files) == 4
    assert all(re.fullmatch(r"[\w.-]+\.html", name) for name in files)
    rows = files[INDEX].partition("<tbody>")[2].split("<tr>")[1:]
    assert ">small</a>" in rows[0]
    assert "TF102" in rows[0]
    assert 'data-sort="96">96<' in rows[0]
    assert "keep-reasoning: rung 2: conditions widened" in rows[0]
    assert ">other.jinja</a>" in rows[1]
    assert "TF901" in rows[2]
    for name in files.keys() - {INDEX}:
        assert INDEX in Markup(files[name]).attributes("href")


def test_without_a_repair_the_index_names_a_kwarg_that_helps() -> None:
    patch = finding(fix=Fix("templatefix patch t.jinja --out fixed.jinja"))
    kwarg = finding(fix=Fix("vllm serve --default-chat-template-kwargs '{\"keep\": true}'"))
    for findings, words in (((patch, kwarg), "--default-chat"), ((patch,), "was not tried")):
        files = folder([full(findings=findings, repairs=())], EDITION, INDEX)
        assert words in Markup(files[INDEX]).text


def test_reports_of_the_same_name_have_pages_of_their_own() -> None:
    files = folder([full(), full(template_name="tool_use"), full(target="other")], EDITION, INDEX)
    assert len(files) == 4


def test_the_index_runs_only_its_own_script() -> None:
    text = folder([full()], EDITION, INDEX)[INDEX]
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in text
    assert "<script" not in page([full()], EDITION)
