"""Hazards give way to what runs have shown, and cost little on templates made to cost much."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from templatefix.findings.finding import Finding, Location
from templatefix.findings.hazard import PLACES, Battery, Hazard
from templatefix.findings.hazards import LARGEST, hazards
from templatefix.syntax import parse
from tests.corpus import corpus_directory, corpus_entries

#: Seconds that a hostile template may take on a slow machine.
PATIENCE = 20.0

TURNS = """\
{{- strftime_now('%H:%M') }}{{- tone }}
{%- for message in messages %}
{%- if loop.last %}{{- message.content | trim }}{% endif %}
{%- for call in message.tool_calls %}
{{- 'call ' + call.function.arguments }}
{%- endfor %}
{%- endfor %}
"""


def codes(found: list[Hazard]) -> set[str]:
    return {hazard.code for hazard in found}


def shown(code: str, line: int, column: int, end: int, role: str = "cause") -> Finding:
    """A finding of a run that blames some columns of a line of ``TURNS``."""
    snippet = TURNS.splitlines()[line - 1][column - 1 : end - 1]
    place = Location(role, line, column, line, end, snippet=snippet)
    return Finding(code, "shown", "error", "high", "it is so", locations=(place,))


def test_without_findings_every_hazard_stands() -> None:
    found = hazards(parse(TURNS), [], "not-run")
    assert codes(found) == {"TF401", "TF402", "TF403", "TF404", "TF405"}


@pytest.mark.parametrize("code", ["TF101", "TF102", "TF104", "TF107", "TF110", "TF111"])
def test_a_position_that_a_run_has_blamed_is_no_hazard(code: str) -> None:
    condition = shown(code, 3, 8, 17)
    assert condition.locations[0].snippet == "loop.last"
    assert "TF401" not in codes(hazards(parse(TURNS), [condition], "broken"))


def test_neither_is_one_whose_output_a_run_has_blamed() -> None:
    output = shown("TF102", 3, 24, 46, "printed-now")
    assert "TF401" not in codes(hazards(parse(TURNS), [output], "broken"))


def test_a_finding_elsewhere_confirms_nothing() -> None:
    elsewhere = shown("TF102", 4, 1, 8)
    assert "TF401" in codes(hazards(parse(TURNS), [elsewhere], "broken"))


@pytest.mark.parametrize("code", ["TF203", "TF205", "TF301"])
def test_a_finding_of_another_kind_confirms_no_position(code: str) -> None:
    assert "TF401" in codes(hazards(parse(TURNS), [shown(code, 3, 8, 17)], "broken"))


def test_one_cause_that_is_shown_is_no_news_elsewhere() -> None:
    scan = (
        "{% set ns = namespace(last=0) %}{% for m in messages %}{% set ns.last = loop.index0 %}"
        "{% endfor %}\n{% for m in messages %}\n{% if loop.index0 > ns.last %}a{% endif %}\n"
        "{% if m.x and loop.index0 > ns.last %}b{% endif %}{% endfor %}"
    )
    (hazard,) = hazards(parse(scan), [], "broken")
    assert len(hazard.locations) == 2
    first = replace(hazard.locations[0], role="cause")
    finding = Finding("TF102", "shown", "error", "high", "it is so", locations=(first,))
    assert hazards(parse(scan), [finding], "broken") == []


def test_a_clock_that_a_rendering_has_shown_is_no_hazard() -> None:
    clock = Finding("TF109", "clock-dependent", "warning", "high", "it changes")
    assert "TF403" not in codes(hazards(parse(TURNS), [clock], "clean"))


def test_an_altered_answer_replaces_the_filter_and_only_there() -> None:
    altered = shown("TF104", 3, 24, 46)
    assert altered.locations[0].snippet == "message.content | trim"
    assert "TF402" not in codes(hazards(parse(TURNS), [altered], "broken"))
    assert "TF402" in codes(hazards(parse(TURNS), [shown("TF104", 5, 1, 9)], "broken"))


def test_a_crash_replaces_what_it_was_feared_for_by_its_line() -> None:
    place = Location("source", 5, 1, 5, 1)
    crash = Finding("TF203", "crash", "warning", "high", "it fails", locations=(place,))
    assert "TF405" not in codes(hazards(parse(TURNS), [crash], "broken"))
    crash = replace(crash, locations=(replace(place, line=3, end_line=3),))
    assert "TF405" in codes(hazards(parse(TURNS), [crash], "broken"))


@pytest.mark.parametrize(
    ("battery", "severity"), [("clean", "info"), ("broken", "info"), ("not-run", "warning")]
)
def test_a_position_that_runs_could_have_shown_is_a_remark(battery: Battery, severity: str) -> None:
    (hazard,) = (each for each in hazards(parse(TURNS), [], battery) if each.code == "TF401")
    assert hazard.severity == severity


def test_places_are_exact_and_limited() -> None:
    body = "".join(f"{{% if loop.last and m.k{i} %}}x{{% endif %}}\n" for i in range(PLACES + 5))
    text = "{% for m in messages %}\n" + body + "{% endfor %}"
    (hazard,) = hazards(parse(text), [], "not-run")
    assert len(hazard.locations) == PLACES
    for place in hazard.locations:
        line = text.splitlines()[place.line - 1]
        assert line[place.column - 1 : place.end_column - 1] == place.snippet


def each(body: str) -> str:
    return "{% for m in messages %}" + body + "{% endfor %}"


HOSTILE = {
    "branches": each(
        "".join(
            f"{{% if loop.last and m.k{i} %}}{{{{ m.content }}}}{{% endif %}}" for i in range(600)
        )
    ),
    "elifs": each(
        "{% if m.a %}a"
        + "".join(f"{{% elif m.k{i} == loop.last %}}{{{{ m.content }}}}" for i in range(400))
        + "{% endif %}"
    ),
    "depth": each("{% if loop.last %}" * 60 + "{{ 'a' + m.name }}" * 50 + "{% endif %}" * 60),
    "chain of variables": each(
        "".join(f"{{% set a{i} = a{i + 1} %}}" for i in range(800))
        + "{% set a800 = loop.last %}{{ a0 }}"
    ),
    "chain of macros": "".join(
        f"{{% macro f{i}(x) %}}{{{{ f{i + 1}(x) }}}}{{% endmacro %}}" for i in range(300)
    )
    + each("{{ f0(loop.last) }}"),
    "operators": each("{{ " + " + ".join(["m.content"] * 200) + " }}"),
    "keys": each("{{ 'a' + m.name }}{% if m.x %}{% endif %}" * 600),
    "namespaces": "{% set ns = namespace() %}"
    + each("".join(f"{{% set ns.a{i} = ns.a{i * 7 % 200} ~ m.x %}}" for i in range(200)))
    + each("".join(f"{{{{ ns.a{i} }}}}" for i in range(200))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates_do_not_hold_it_up(name: str) -> None:
    template = parse(HOSTILE[name])
    begun = time.monotonic()
    found = hazards(template, [], "not-run")
    assert time.monotonic() - begun < PATIENCE
    assert len(found) <= 8


def test_a_template_beyond_all_measure_is_left_alone() -> None:
    template = parse(each("{{ m.a }}" * (LARGEST // 2)) + "{{ strftime_now('%H') }}")
    assert hazards(template, [], "not-run") == []


@pytest.mark.corpus
@pytest.mark.skipif(corpus_directory() is None, reason="no corpus of real templates here")
def test_real_templates_get_few_hazards_with_places() -> None:
    for entry in corpus_entries():
        found = hazards(parse(entry.text), [], "clean")
        assert len(found) <= 6, entry.model_id
        for hazard in found:
            assert hazard.locations, entry.model_id
            assert all(place.snippet for place in hazard.locations), entry.model_id
