"""What a script learns from the exit code."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from templatefix.cli.program import templatefix
from templatefix.findings.finding import Finding, Severity
from templatefix.findings.outcome import Report
from tests.cli.stub import Stub
from tests.report.samples import clean, finding, info, report, unreadable

GRAVITIES: tuple[Severity, ...] = ("info", "warning", "error")


def holding(*findings: Finding) -> Report:
    return report(findings=findings)


OUTCOMES = {
    "clean": clean(),
    "info": holding(info()),
    "warning": holding(finding(severity="warning")),
    "error": holding(finding()),
    "broken": unreadable(code="TF902"),
    "nowhere": unreadable(),
    "nothing": clean(verdict="not-evaluated", runs=()),
}


@pytest.mark.parametrize(
    ("targets", "fail_on", "code"),
    [
        ("clean", None, 0),
        ("info", None, 0),
        ("warning", None, 1),
        ("error", None, 1),
        ("info", "info", 1),
        ("warning", "error", 0),
        ("error", "error", 1),
        ("error", "never", 0),
        ("broken", None, 1),
        ("broken", "error", 1),
        ("broken", "never", 0),
        ("nowhere", None, 2),
        ("nowhere", "never", 2),
        ("clean error nowhere", None, 2),
        ("clean error", None, 1),
    ],
)
def test_the_gravest_outcome_decides(
    stub: Stub, targets: str, fail_on: str | None, code: int
) -> None:
    options = [] if fail_on is None else ["--fail-on", fail_on]
    ended = stub(OUTCOMES)("check", *targets.split(), *options)
    assert ended.exit_code == code
    assert "Traceback" not in ended.output


def test_nothing_evaluated_is_said_and_fails_only_when_asked(stub: Stub) -> None:
    program = stub(OUTCOMES)
    lenient = program("check", "nothing")
    assert lenient.exit_code == 0
    assert lenient.stderr == "templatefix: nothing was evaluated (see --verbose)\n"
    assert program("check", "nothing", "--strict-coverage").exit_code == 1
    assert program("check", "nothing", "clean", "--strict-coverage").exit_code == 0
    assert program("check", "clean").stderr == ""


def test_other_targets_are_checked_after_an_unusable_one(stub: Stub) -> None:
    document = stub(OUTCOMES).json("check", "nowhere", "clean")
    assert [each["target"] for each in document["reports"]] == ["nowhere", "clean"]
    assert [each["verdict"] for each in document["reports"]] == ["error", "preserving"]


@pytest.mark.parametrize("output_format", ["json", "sarif", "github"])
def test_an_unusable_target_is_named_on_stderr_when_the_report_is_for_machines(
    stub: Stub, output_format: str
) -> None:
    ended = stub(OUTCOMES)("check", "nowhere", "--output-format", output_format)
    assert ended.stderr == "templatefix: nowhere: no such file or directory (check the path)\n"


def test_an_unusable_target_is_said_once_in_text(stub: Stub) -> None:
    ended = stub(OUTCOMES)("check", "nowhere")
    assert ended.output.count("no such file") == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["check"], "Missing argument"),
        (["chekc", "x"], "No such command"),
        (["check", "clean", "--kwargs", "{"], "not JSON"),
        (["check", "clean", "--kwargs", "[1]"], "not a JSON object"),
        (["check", "clean", "--kwargs", '{"a": NaN}'], "NaN is not JSON"),
        (["check", "clean", "--kwargs", "[" * 100_000], "not JSON"),
        (["check", "clean", "--policy", "both"], "policy"),
        (["check", "clean", "--block-size", "0"], "block-size"),
        (["check", "clean", "--fail-on", "sometimes"], "fail-on"),
        (["check", "clean", "--select", "TF999"], "no rule has the code 'TF999'"),
        (["check", "clean", "--ignore", "TF101,XX"], "no rule has the code 'XX'"),
        (["check", "clean", "--select", ","], "codes"),
        (["check", "-", "--conversation", "-"], "standard input"),
        (["check", "clean", "--config", "x", "--isolated"], "exclude"),
        (["check", "clean", "--config", "nowhere.toml"], "no such file (check the path)"),
        (["check", "clean", "--baseline", "nowhere.json"], "nowhere.json: cannot be read"),
        (["check", "clean", "--conversation", "nowhere.json"], "nowhere.json: cannot be read"),
        (["check", "clean", "--output", "no/such/folder/x"], "cannot be written"),
        (["explain", "TF999"], "no rule has the code 'TF999'"),
        (["check", "clean", "--bogus\x1b[31m"], "\\x1b"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_2(stub: Stub, args: list[str], words: str) -> None:
    ended = stub(OUTCOMES)(*args)
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert words in ended.stderr
    assert "\x1b" not in ended.stderr


@pytest.mark.parametrize("words", ["--foo", "--hoo", "--hook-"])
def test_no_hidden_option_is_proposed(stub: Stub, words: str) -> None:
    ended = stub(OUTCOMES)("check", "clean", words)
    assert ended.exit_code == 2
    assert "--hook'" not in ended.stderr
    assert "'--quiet'" in stub(OUTCOMES)("check", "clean", "--quiett").stderr


@pytest.mark.parametrize("words", [[], ["ready"]])
def test_a_group_alone_prints_its_help(words: list[str]) -> None:
    ended = CliRunner().invoke(templatefix, words)
    assert (ended.exit_code, ended.stderr) == (2, "")
    assert ended.stdout == CliRunner().invoke(templatefix, [*words, "--help"]).stdout
    assert "Commands:\n" in ended.stdout
    assert "..." not in ended.stdout.replace("[ARGS]...", "")


def test_help_and_version() -> None:
    from tests.cli.stub import Program

    assert Program()("--version").stdout.startswith("templatefix ")
    assert Program()("--help").exit_code == 0
    assert Program()().exit_code == 2
    assert "--strict-coverage" in Program()("check", "--help").stdout
    assert "--hook" not in Program()("check", "--help").stdout


def test_hidden_findings_do_not_fail(stub: Stub) -> None:
    text = "{# templatefix: ignore-file[TF102] accepted #}"
    outcomes = {"x": replace(holding(finding()), source=text)}
    ended = stub(outcomes)("check", "x")
    assert ended.exit_code == 0
    assert "1 hidden" in ended.stdout
