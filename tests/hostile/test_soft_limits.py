"""Limits that hold in the process itself: one run is set aside, and all else is reported."""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from templatefix.api import CheckOptions
from templatefix.checking import check
from templatefix.errors import TargetError
from templatefix.findings.outcome import Report
from templatefix.limits import Limits, limited
from templatefix.patching.repair import PatchOptions, repair
from templatefix.patching.result import report_of
from templatefix.render import JinjaRenderer, OverLimit, RenderRequest, SyntaxFault
from templatefix.render.trace import trace
from templatefix.source import ChatTemplate
from templatefix.syntax import Unparsable, parse
from tests.hostile.templates import GREEDY, HIDDEN, LOOPS, LOUD, PLAIN, SLOW
from tests.patch.test_rebuild import DROPS_WORDS
from tests.subjects import template

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")

LIMITS = Limits(seconds=0.3, megabytes=200, characters=1_000_000)
REQUEST = RenderRequest([{"role": "user", "content": "Hello"}])


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    with limited(LIMITS):
        yield


def _check(text: str) -> Report:
    return check(ChatTemplate("x", "x.jinja", text), CheckOptions())


def _over(report: Report) -> list[str]:
    return [finding.detail for finding in report.findings if finding.code == "TF601"]


@pytest.mark.parametrize("name", SLOW)
def test_code_that_takes_too_long_is_ended(name: str) -> None:
    with pytest.raises(OverLimit, match=r"rendering takes more than 0\.3 s") as over:
        JinjaRenderer(SLOW[name]).render(REQUEST)
    assert over.value.line is not None


@pytest.mark.parametrize("name", GREEDY)
def test_code_that_asks_for_too_much_is_refused(name: str) -> None:
    messages = [{"role": "user", "content": "Hello"}] * 5
    patient = Limits(seconds=60, megabytes=100)
    with limited(patient), pytest.raises(OverLimit, match="rendering takes more than 100 MB"):
        JinjaRenderer(GREEDY[name]).render(RenderRequest(messages))


@pytest.mark.parametrize("name", LOUD)
def test_a_flood_of_text_is_cut_off(name: str) -> None:
    with pytest.raises(OverLimit, match="prints more than 1000000 characters"):
        JinjaRenderer(LOUD[name]).render(REQUEST)


def test_the_tracer_has_the_same_limits() -> None:
    with pytest.raises(OverLimit, match=r"more than 0\.3 s") as over:
        trace(PLAIN + "\n\n" + LOOPS, REQUEST, {})
    assert over.value.line == PLAIN.count("\n") + 3
    with pytest.raises(OverLimit, match="characters"):
        trace(LOUD["a flood in one piece"], REQUEST, {})


def test_the_line_is_the_one_that_takes_so_long() -> None:
    with pytest.raises(OverLimit) as over:
        JinjaRenderer(PLAIN + "\n\n" + LOOPS).render(REQUEST)
    assert over.value.line == PLAIN.count("\n") + 3


@pytest.mark.parametrize(
    ("name", "preserving"),
    [
        ("in a late turn only", False),
        ("under one kwarg only", True),
        ("with tools only", True),
        ("in history only", False),
    ],
)
def test_what_does_not_hit_a_limit_is_reported_as_ever(name: str, preserving: bool) -> None:
    report = _check(HIDDEN[name])
    assert set(_over(report)) == {"time/rendering"}
    assert report.fault is None
    assert (report.verdict == "preserving") is preserving


def test_a_late_bomb_is_reported_with_its_conversation_and_turn() -> None:
    report = _check(HIDDEN["in a late turn only"])
    (found,) = [each for each in report.findings if each.code == "TF601"]
    assert (found.severity, found.turn, found.scenario) == ("error", 3, "plain-chat")
    assert "plain-chat, turn 3, default kwargs" in found.message
    assert {each.what for each in report.coverage.not_evaluated} >= {"plain-chat"}


def test_a_bomb_under_a_kwarg_is_reported_with_the_kwarg() -> None:
    report = _check(HIDDEN["under one kwarg only"])
    (found,) = [each for each in report.findings if each.code == "TF601"]
    assert found.kwargs == {"deep_thought": True}


def test_many_slow_renderings_together_have_a_limit() -> None:
    with limited(Limits(seconds=0.02)) as guard:
        renderer = JinjaRenderer("{% for i in range(300) %}{{ i }}{% endfor %}")
        with pytest.raises(OverLimit, match=r"takes more than 0\.24 s in all"):
            _render_for_ever(renderer)
        guard.renew()
        renderer.render(REQUEST)


def _render_for_ever(renderer: JinjaRenderer) -> None:
    while True:
        renderer.render(REQUEST)


def test_compiling_has_limits() -> None:
    text = "{{ a + a }}" * 10_000
    with limited(Limits(seconds=60)):
        parse(text)
    with limited(Limits(seconds=0.05)), pytest.raises(SyntaxFault, match="compiling takes") as at:
        JinjaRenderer(text)
    assert at.value.code == "TF601"


def test_a_constant_that_jinja_evaluates_while_compiling_is_evaluated_then() -> None:
    text = "{{ ('a ' * 1_000_000) | title | length }}"
    with limited(Limits(seconds=0.1)), pytest.raises(SyntaxFault, match="compiling takes") as at:
        JinjaRenderer(text)
    assert at.value.code == "TF601"


def test_parsing_has_limits() -> None:
    with limited(Limits(seconds=0.01)), pytest.raises(Unparsable, match="parsing takes") as at:
        parse("{{ b + b }}" * 15_000)
    assert at.value.code == "TF601"


@pytest.mark.parametrize("text", ["a" * 1_000_001, "{{a}}" * 100_000])
def test_the_size_of_a_template_has_a_limit(text: str) -> None:
    with limited(Limits(seconds=60)), pytest.raises(Unparsable, match="more than") as at:
        parse(text)
    assert at.value.code == "TF601"


def test_a_large_template_is_said_not_to_be_analysed() -> None:
    with limited(Limits()):
        report = _check(PLAIN + "{{ a.b }}" * 5_100)
    assert ("the static analysis", "more than 10000") in [
        (each.what, each.why.partition(", ")[2]) for each in report.coverage.not_evaluated
    ]


def test_limits_go_with_the_block_that_sets_them() -> None:
    with limited(Limits(characters=10)), pytest.raises(OverLimit):
        JinjaRenderer("more than ten characters").render(REQUEST)
    assert JinjaRenderer("more than ten characters").render(REQUEST) == "more than ten characters"


@pytest.mark.parametrize("characters", [1_500, 3_000])
def test_a_repair_that_prints_too_much_on_its_way_says_so(characters: int) -> None:
    options = PatchOptions(policy="keep-reasoning", max_examples=2)
    with limited(Limits(characters=characters)), pytest.raises(TargetError) as at:
        repair(template(DROPS_WORDS), options)
    assert at.value.code == "TF601"
    assert "rendering prints more than" in at.value.message
    with limited(Limits(characters=100_000)):
        assert repair(template(DROPS_WORDS), options).status == "patched"


def test_a_repair_says_that_its_last_check_took_more_than_it_may() -> None:
    options = PatchOptions(policy="keep-reasoning", max_examples=2)
    with limited(Limits(characters=6_000)):
        patched = repair(template(DROPS_WORDS), options)
        assert "TF601" in [each.code for each in report_of(patched, options).remaining]
    assert "TF601" not in [each.code for each in report_of(patched, options).remaining]


def test_limits_within_limits_leave_those_around_them_at_work() -> None:
    JinjaRenderer("short").render(REQUEST)  # the clock of the fixture's limits ticks now
    with limited(Limits(seconds=60)):
        JinjaRenderer("short").render(REQUEST)
    with pytest.raises(OverLimit, match=r"rendering takes more than 0\.3 s"):
        JinjaRenderer(next(iter(SLOW.values()))).render(REQUEST)


def test_the_clock_stands_still_where_no_step_is_under_way() -> None:
    JinjaRenderer("short").render(REQUEST)
    assert signal.getitimer(signal.ITIMER_PROF)[1] > 0
    end = time.process_time() + 1
    while signal.getitimer(signal.ITIMER_PROF)[1] and time.process_time() < end:
        pass
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_an_alarm_that_falls_into_the_garbage_collector_is_given_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renderer = JinjaRenderer(SLOW["a filter chain over batches"])
    unheard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unheard.append)
    threshold = gc.get_threshold()

    def busy(phase: str, _: object) -> None:
        end = time.process_time() + 0.002
        while phase == "stop" and time.process_time() < end:
            pass

    gc.callbacks.append(busy)
    gc.set_threshold(1000, 10_000, 10_000)
    try:
        for _ in range(3):
            with pytest.raises(OverLimit, match="rendering takes more than"):
                renderer.render(REQUEST)
            assert gc.isenabled()
    finally:
        gc.callbacks.remove(busy)
        gc.set_threshold(*threshold)
    assert not unheard


def test_steps_that_are_each_short_ring_no_alarm() -> None:
    renderer = JinjaRenderer("{% for i in range(2000) %}{{ i }}{% endfor %}")
    begun, renders = time.process_time(), 0
    while time.process_time() < begun + 2 * LIMITS.seconds:
        renderer.render(REQUEST)
        renders += 1
    assert renders > 10
