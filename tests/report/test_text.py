"""The text report: what a user reads, and what must never reach a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from templatefix.findings.finding import Divergence, Location, Side
from templatefix.findings.outcome import Coverage, Hidden, NotEvaluated, Report
from templatefix.report.text import TextStyle, text_report
from templatefix.report.visible import cells, visible
from tests.report.samples import SOURCE, clean, finding, info, report, run, unreadable


def printed(*reports: Report, **style: bool | int) -> str:
    return text_report(list(reports), TextStyle(**style))  # type: ignore[arg-type]


def test_a_finding_reads_like_this() -> None:
    assert (
        printed(report(), quiet=True)
        == """\
models/small.jinja:3:16  TF102 dropped-reasoning
   (enable_thinking=true, faithful client, reasoning-chat, turn 2)
   history leaves out the reasoning that the model wrote and the client replayed
    3 |         {%- if loop.index0 > last_question %}
      |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |                true when the answer was written, false once a user message follows
    6 |         {{- message.content }}   <- printed now, without the reasoning
   stream …⏎<|im_start|>assistant⏎│<think>⏎The user
   prompt …⏎<|im_start|>assistant⏎│Paris.<|im_end|>
   reuse stops at token 39 of 96 (32 in full blocks of 16); 57 generated tokens unusable here, 170
   over 3 turns
   fix: templatefix patch --policy keep-reasoning
"""
    )


def test_a_clean_target_is_a_verdict_and_its_coverage() -> None:
    lines = printed(clean()).splitlines()
    assert lines[0] == "models/small.jinja: preserving (2 core runs)"
    assert lines[1].startswith("   evaluated: 2 modes, 2 scenarios, 1 client; tokenizer models/")
    assert lines[3].startswith("   not evaluated: image, audio (media are not evaluated); devel")


def test_quiet_prints_findings_and_faults_only() -> None:
    assert printed(clean(), quiet=True) == ""
    assert printed(unreadable(), quiet=True) == (
        "nowhere.jinja: error: TF901 no such file or directory (check the path)\n"
    )


def test_a_stand_in_tokenizer_marks_every_token_figure() -> None:
    text = printed(report(tokenizer_approximate=True), verbose=True)
    for figure in (39, 96, 32, 57, 170, 80, 192):
        assert f"~{figure}" in text
    assert "~" not in printed(report(), verbose=True)


def test_tokens_of_the_prompt_are_not_called_generated() -> None:
    assert "57 cached tokens" in printed(report(findings=(finding(reused=12),)))


def test_infos_take_one_line_after_the_grave_ones_unless_verbose() -> None:
    both = report(findings=(info(), finding()))
    lines = printed(both, quiet=True).splitlines()
    assert lines[0].startswith("models/small.jinja:3:16  TF102")
    assert lines[-1].startswith("models/small.jinja:3:16  TF105 stop-token-mismatch: history ends")
    assert cells(lines[-1]) <= 100
    assert "TF105" not in printed(both, quiet=True, infos=False)
    assert printed(both, quiet=True, verbose=True).count(" ^^^") == 2


@pytest.mark.parametrize("attention", ["hybrid", "sliding-window"])
def test_an_upper_bound_is_called_one(attention: str) -> None:
    assert "hits are an upper bound" in printed(report(attention=attention))
    assert "upper bound" not in printed(report())


def test_what_was_not_evaluated_is_grouped_and_complete_under_verbose() -> None:
    left_out = tuple(NotEvaluated(f"thing{n}", f"reason {n // 2}") for n in range(10))
    coverage = Coverage(({},), ("plain-chat",), ("faithful",), left_out)
    short = " ".join(printed(clean(coverage=coverage)).split())
    assert "thing0, thing1 (reason 0)" in short
    assert "4 more (see --verbose)" in short
    long = printed(clean(coverage=coverage), verbose=True)
    assert all(each.what in long and each.why in long for each in left_out)


def test_skipped_files_are_named_under_verbose_only() -> None:
    skipped = clean(verdict="not-evaluated", skipped="not a chat template")
    assert printed(skipped) == ""
    assert printed(skipped, verbose=True) == "models/small.jinja: skipped: not a chat template\n"


def test_a_fault_is_not_said_twice() -> None:
    twice = replace(unreadable(code="TF902"), findings=(finding(code="TF902"),))
    assert printed(twice).count("TF902") == 1


def test_hidden_findings_are_counted() -> None:
    hidden = (Hidden(finding(), "baseline"),)
    assert "1 hidden by comments or the baseline" in printed(report(findings=(), hidden=hidden))


def test_a_break_is_excused_by_core_runs_that_only_drop_reasoning() -> None:
    dropped = run(left_out=True)
    under = {"policy": "lossless", "findings": ()}
    excused = "models/small.jinja: preserving under lossless (reasoning is dropped in 1 of 1 core "
    assert printed(report(runs=(dropped,), **under)).startswith(excused)
    for runs in ((dropped, run("r2")), (run(), run("r2", core=False, left_out=True)), ()):
        assert printed(report(runs=runs, **under)).startswith("models/small.jinja: breaks")


def test_several_targets_are_summed_up() -> None:
    text = printed(clean(), report(), unreadable())
    assert text.endswith("\n3 templates: 1 preserving, 1 broken, 1 unreadable\n")


def test_nothing_untrusted_reaches_the_terminal_raw() -> None:
    evil = "\x1b]0;x\x07\x9b31m\u202e\u200b\r\n\ud800"
    side = Side(evil, evil, (1,))
    location = Location("cause", 1, 1, 1, 9, evil, evil)
    poisoned = finding(
        message=evil,
        explanation=evil + "!",
        detail=evil,
        kwargs={evil: evil},
        scenario=evil,
        locations=(location, location),
        divergence=Divergence(1, 1, side, replace(side, text="other")),
        conversation={"messages": [{"role": evil, "content": evil}]},
    )
    whole = report(
        display=evil,
        target=evil,
        template_name=evil,
        source=evil + SOURCE,
        tokenizer_source=evil,
        findings=(poisoned, replace(poisoned, severity="info")),
        runs=(run(evil, kwargs={evil: evil}, scenario=evil),),
        coverage=Coverage(({},), (evil,), (evil,), (NotEvaluated(evil, evil),)),
        hidden=(Hidden(finding(), "suppression", evil),),
    )
    for verbose in (False, True):
        text = printed(whole, unreadable(evil), clean(skipped=evil), verbose=verbose)
        assert visible(text.replace("\n", "")) == text.replace("\n", "")
        assert "\r" not in text


def test_colour_appears_only_where_it_is_wanted() -> None:
    assert "\x1b[" not in printed(report(), clean(), unreadable())
    assert "\x1b[1;31m" in printed(report(), colour=True)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_code_stays_within_the_width_even_in_a_template_of_one_line(width: int) -> None:
    source = "{% for m in messages %}" * 20 + "{% if last %}" + "{{ 日本 }}" * 40
    start = 20 * 23 + 7
    note = "a note that is far too long to stand beside a caret on a line of this width, it seems"
    first = Location("cause", 1, start, 1, start + 4, note)
    wide = Location("printed-now", 1, start - 200, 1, start + 100, note)
    for locations in ((first, wide), (wide, first)):
        text = printed(report(source=source, findings=(finding(locations=locations),)), width=width)
        frame = [line for line in text.splitlines() if "|" in line and "│" not in line]
        assert max(map(cells, frame)) <= width
        assert any("^" in line for line in frame)


def test_the_caret_stands_under_the_span() -> None:
    source = "日本{{ x\t+ y }}"
    location = Location("cause", 1, 6, 1, 11, "here")
    lines = printed(report(source=source, findings=(finding(locations=(location,)),))).splitlines()
    above = next(index for index, line in enumerate(lines) if "日本" in line)
    start = cells(lines[above][: lines[above].index("x\\t+")])
    assert lines[above + 1].index("^") == start
    assert lines[above + 1].rstrip().endswith("^^^^^^ here")


def test_the_sides_of_a_divergence_are_aligned() -> None:
    sides = [line for line in printed(report()).splitlines() if "│" in line]
    assert len(sides) == 2
    assert len({line.index("│") for line in sides}) == 1


def test_equal_text_with_other_tokens_shows_the_ids() -> None:
    seam = Divergence(3, 9, Side("a", "bc", (11, 12)), Side("a", "bc", (13,)))
    text = printed(report(findings=(finding(divergence=seam),)))
    assert "│tokens 11 12  bc" in text
    assert "│tokens 13  bc" in text


def test_a_counterexample_can_be_copied() -> None:
    import json

    conversation = {"messages": [{"role": "user", "content": "a\u202e\n日本"}]}
    lines = printed(report(findings=(finding(conversation=conversation),))).splitlines()
    [line] = [line for line in lines if line.startswith('   {"messages"')]
    assert json.loads(line) == conversation
