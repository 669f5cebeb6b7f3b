"""Workflow commands: one line each, out of which no content can break."""

from __future__ import annotations

import re

from templatefix.findings.finding import Fix, Location
from templatefix.report.github import github_report
from tests.report.samples import clean, finding, info, report, unreadable

_COMMAND = re.compile(r"::(error|warning|notice) ((?:\w+=[^:,\r\n]*,?)+)::([^\r\n]*)")


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """The commands of a log as the runner of GitHub Actions reads them."""
    found = []
    for line in text.splitlines():
        match = _COMMAND.fullmatch(line)
        assert match is not None, line
        properties = dict(part.split("=", 1) for part in match[2].split(","))
        found.append((match[1], properties, match[3]))
    return found


def test_a_finding_stands_beside_its_line() -> None:
    [(name, properties, message)] = commands(github_report([report()]))
    assert name == "error"
    assert properties == {
        "file": "models/small.jinja",
        "line": "3",
        "col": "16",
        "endColumn": "43",
        "title": "TF102 dropped-reasoning",
    }
    assert message.startswith("history leaves out the reasoning")
    assert message.endswith("%0Afix: templatefix patch --policy keep-reasoning")


def test_severities_become_commands() -> None:
    found = commands(github_report([report(findings=(info(), finding(severity="warning")))]))
    assert [name for name, _, _ in found] == ["warning", "notice"]


def test_clean_targets_say_nothing_and_unusable_ones_do() -> None:
    [(name, properties, message)] = commands(github_report([clean(), unreadable()]))
    assert (name, properties["title"]) == ("error", "TF901 unreadable")
    assert message == "nowhere.jinja: no such file or directory (check the path)"


def test_a_template_inside_another_file_names_its_line_in_the_message() -> None:
    [(_, properties, message)] = commands(github_report([report(display="x/model.gguf")]))
    assert "line" not in properties
    assert "template line 3, column 16" in message


def test_content_cannot_break_out() -> None:
    evil = "x\n::error file=a::owned\r\n%0A::add-mask::y,col=1:\x1b[31m\u2028::stop::\ud800"
    location = Location("cause", 1, 1, 2, 1, evil, evil)
    poisoned = finding(
        message=evil, name=evil, explanation=evil, locations=(location,), fix=Fix(evil)
    )
    text = github_report([report(display=evil, findings=(poisoned,)), unreadable(evil)])
    found = commands(text)
    assert len(found) == 2
    assert set(found[0][1]) == {"file", "line", "col", "title"}
    assert "%250A" in found[0][2]
    text.encode("utf-8")
