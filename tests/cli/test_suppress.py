"""Comments in a template accept findings, and are themselves held to something."""

from __future__ import annotations

import pytest

from templatefix.findings.finding import Finding, Location
from templatefix.findings.outcome import Report
from templatefix.suppress import suppress
from tests.report.samples import finding, report


def at(line: int, column: int, end_column: int, code: str = "TF102") -> Finding:
    location = Location("cause", line, column, line, end_column)
    return finding(code=code, locations=(location,))


def codes(source: str, *findings: Finding, complete: bool = True) -> list[str]:
    return [each.code for each in suppressed(source, *findings, complete=complete).findings]


def suppressed(source: str, *findings: Finding, complete: bool = True) -> Report:
    return suppress(report(source=source, findings=findings), complete=complete)


def test_the_next_construct_is_covered_and_nothing_else() -> None:
    source = """\
{{ a }}
{# templatefix: ignore[TF102] the model was trained so #}

{{- b }}
{{ c }}
"""
    assert codes(source, at(4, 1, 9)) == []
    assert codes(source, at(4, 5, 6)) == []
    assert codes(source, at(1, 4, 5)) == ["TF102", "TF002"]
    assert codes(source, at(5, 4, 5)) == ["TF102", "TF002"]
    assert codes(source, at(4, 5, 6, "TF104")) == ["TF104", "TF002"]


def test_any_location_of_a_finding_counts() -> None:
    source = "{{ a }}\n{# templatefix: ignore[TF102] why #}{{ b }}\n"
    first, second = at(1, 4, 5).locations + at(2, 41, 42).locations
    assert codes(source, finding(locations=(first, second))) == []


def test_constructs_on_one_line_are_told_apart() -> None:
    source = "{{ a }}{# templatefix: ignore[TF102] why #}{{ b }}{{ c }}"
    begin = source.index("{{ b") + 1
    assert codes(source, at(1, begin + 3, begin + 4)) == []
    assert codes(source, at(1, begin + 10, begin + 11)) == ["TF102", "TF002"]
    assert codes(source, at(1, 4, 5)) == ["TF102", "TF002"]
    # A location that is only known by its line may well be the construct.
    assert codes(source, at(1, 1, len(source))) == []


def test_a_tag_of_several_lines_is_covered_but_not_its_body() -> None:
    source = "{# templatefix: ignore[TF102] why #}\n{%- if a\n and b %}\n{{ c }}\n{% endif %}"
    assert codes(source, at(3, 6, 7)) == []
    assert codes(source, at(4, 4, 5)) == ["TF102", "TF002"]


def test_a_location_that_spans_a_whole_block_begins_in_its_tag() -> None:
    source = "{# templatefix: ignore[TF102] why #}\n{% if a %}\n{{ c }}\n{% endif %}"
    whole = Location("cause", 2, 1, 4, 12)
    assert codes(source, finding(locations=(whole,))) == []


def test_text_is_a_construct_and_comments_and_blanks_are_none() -> None:
    source = """\
{# templatefix: ignore[TF102] why #}
{# templatefix: ignore[TF104] why not #}
    <|im_start|>
{{ a }}
"""
    both = at(3, 5, 17), at(3, 5, 17, "TF104")
    assert codes(source, *both) == []
    assert codes(source, at(4, 4, 5)) == ["TF102", "TF002", "TF002"]


def test_a_whole_file_is_covered() -> None:
    source = "{{ a }}\n{{ b }}{#- templatefix: ignore-file[TF102, TF104] why -#}"
    assert codes(source, at(1, 4, 5), at(2, 4, 5, "TF104"), finding(locations=())) == []
    assert codes(source, at(1, 4, 5, "TF106")) == ["TF106", "TF002"]


def test_a_reason_is_required() -> None:
    source = "{# templatefix: ignore[TF102] #}\n{{ a }}"
    [found] = suppressed(source, at(2, 4, 5)).findings
    assert (found.code, found.name, found.severity) == (
        "TF001",
        "suppression-without-reason",
        "warning",
    )
    assert (found.line, found.column) == (1, 1)


def test_what_suppresses_nothing_is_reported_code_by_code() -> None:
    source = "\n {# templatefix: ignore[TF102,TF104] why #}{{ a }}"
    [found] = suppressed(source, at(2, 48, 49)).findings
    assert (found.code, found.line, found.column, found.detail) == ("TF002", 2, 2, "TF104")
    assert "TF104" in found.message


def test_unused_is_only_said_when_everything_was_looked_for() -> None:
    source = "{# templatefix: ignore[TF102] why #}{{ a }}"
    assert codes(source) == ["TF002"]
    assert codes(source, complete=False) == []
    unjudged = report(source=source, findings=(), verdict="not-evaluated")
    assert suppress(unjudged).findings == ()


@pytest.mark.parametrize(
    "comment",
    [
        "templatefix: ignore why",
        "templatefix: ignore[] why",
        "templatefix: ignores[TF102] why",
        "templatefix: skip",
    ],
)
def test_what_cannot_be_understood_is_reported(comment: str) -> None:
    [kept, found] = suppressed(f"{{# {comment} #}}{{{{ a }}}}", at(1, 40, 41)).findings
    assert kept.code == "TF102"
    assert found.code == "TF002"
    assert "cannot be understood" in found.message


@pytest.mark.parametrize(
    "source",
    [
        "{{ '{# templatefix: ignore-file[TF102] why #}' }}",
        "{% raw %}{# templatefix: ignore-file[TF102] why #}{% endraw %}",
        "templatefix: ignore-file[TF102] why",
        "{# see templatefix: ignore-file[TF102] why #}",
        "{# templatefix: ignore-file[TF102] why",
        "{% templatefix: ignore-file[TF102] why",
    ],
)
def test_only_comments_that_begin_so_count(source: str) -> None:
    assert codes(source, finding(locations=())) == ["TF102"]


def test_windows_line_ends_do_not_shift_anything() -> None:
    source = "{{ a }}\r\n{# templatefix: ignore[TF102] why #}\r\n{{ b }}\r\n"
    assert codes(source, at(3, 4, 5)) == []


def test_the_reason_and_the_finding_are_kept() -> None:
    [hidden] = suppressed(
        "{# templatefix: ignore-file[TF102] as the\n model was trained #}", finding()
    ).hidden
    assert (hidden.by, hidden.reason) == ("suppression", "as the model was trained")
    assert hidden.finding.code == "TF102"
