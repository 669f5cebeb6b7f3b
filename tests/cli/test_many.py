"""Many targets: in parallel, streamed, gone on with, interrupted; always with the same lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from templatefix.checking import CheckOptions
from templatefix.cli.program import templatefix
from templatefix.findings.outcome import Report
from templatefix.source import ChatTemplate
from tests.cli.stub import ROOT
from tests.hostile.templates import PLAIN
from tests.processes import children
from tests.report.samples import clean
from tests.report.test_json_report import schema

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

MANY = 12


@pytest.fixture
def looked_into(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[str]]:
    """Checks that take no time; returns the names of the templates that were checked since."""
    log = tmp_path / "log"
    log.touch()

    def check(template: ChatTemplate, options: CheckOptions, *_: object) -> Report:
        with log.open("a") as file:
            file.write(f"{Path(template.display).name}\n")
        if "dies" in template.text:
            os.kill(os.getpid(), signal.SIGUSR2)
        if "once" in template.text:
            try:
                (tmp_path / "died").mkdir()
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return replace(
            clean(),
            target=template.target,
            display=template.display,
            template_name=template.name,
            block_size=options.block_size,
        )

    monkeypatch.setattr("templatefix.api.check", check)

    def since() -> list[str]:
        names = sorted(log.read_text().split())
        log.write_text("")
        return names

    return since


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Templates, a model with two, and what cannot be used."""
    folder = tmp_path / "many"
    for number in range(MANY):
        file = folder / f"{number % 3}" / f"t{number:02}.jinja"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{PLAIN}{{# {number} #}}", "utf-8")
    model = folder / "model" / "additional_chat_templates"
    model.mkdir(parents=True)
    (model.parent / "chat_template.jinja").write_text(PLAIN, "utf-8")
    (model / "tools.jinja").write_text(f"{PLAIN}{{{{ tools }}}}", "utf-8")
    (folder / "1" / "bytes.jinja").write_bytes(b"\xff\xfe\x00messages")
    (folder / "2" / "page.jinja").write_text("{{ title }}", "utf-8")
    return folder


def check(*args: str, stdin: str | None = None) -> Result:
    ended = CliRunner().invoke(templatefix, ["check", "--no-search", *args], input=stdin)
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
    return ended


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_lines_are_the_reports_of_the_json_document_in_its_order(
    folder: Path, looked_into: Callable[[], list[str]]
) -> None:
    document = json.loads(check(str(folder), "nowhere.jinja", "--output-format", "json").stdout)
    streamed = check(str(folder), "nowhere.jinja", "--output-format", "jsonl")
    lines = lines_of(streamed.stdout)
    assert len(lines) == MANY + 5
    for line, report in zip(lines, document["reports"], strict=True):
        assert {key: line[key] for key in report} == report
        assert line["schema"] == 1
    assert [line["content_sha256"] is None for line in lines].count(True) == 2
    assert streamed.exit_code == 2
    for fault in ("bytes.jinja: is UTF-16", "nowhere.jinja: no such file"):
        assert fault in streamed.stderr


def test_every_line_follows_the_schema(folder: Path, looked_into: Callable[[], list[str]]) -> None:
    whole = schema()
    line_schema = {**whole["$defs"]["line"], "$defs": whole["$defs"]}
    for line in lines_of(check(str(folder), "--output-format", "jsonl").stdout):
        jsonschema.validate(line, line_schema)


@pytest.mark.parametrize("output_format", ["text", "jsonl"])
def test_the_number_of_workers_changes_nothing(
    folder: Path, looked_into: Callable[[], list[str]], output_format: str
) -> None:
    ended = [
        check(str(folder), str(folder / "0"), "--jobs", jobs, "--output-format", output_format)
        for jobs in ("1", "2", "5")
    ]
    assert len({(each.stdout, each.exit_code) for each in ended}) == 1
    assert looked_into().count("t03.jinja") == 6


def test_targets_come_from_a_file_as_well(
    folder: Path, tmp_path: Path, looked_into: Callable[[], list[str]]
) -> None:
    first, second = folder / "0" / "t00.jinja", folder / "1" / "t01.jinja"
    text = f"# two\n\n  {second}\r\n{first}"
    (tmp_path / "list").write_text(text)
    named = check(str(first), "--targets-from", str(tmp_path / "list"), "--output-format", "jsonl")
    expected = [str(first), str(second), str(first)]
    assert [line["target"] for line in lines_of(named.stdout)] == expected
    piped = check("--targets-from", "-", "--output-format", "jsonl", stdin=text)
    assert [line["target"] for line in lines_of(piped.stdout)] == expected[1:]


@pytest.mark.parametrize(
    ("content", "args", "words"),
    [
        ("# none\n", [], "names no target"),
        ("\0", [], "NUL bytes"),
        (None, [], "no such file"),
        ("x", ["--jobs", "2", "--server", "http://127.0.0.1:9"], "exclude each other"),
        ("x", ["--resume", "r", "--output", "o"], "exclude each other"),
        ("x", ["--resume", "r", "--output-format", "json"], "JSON lines"),
        ("x", ["--write-baseline", "b", "--output-format", "jsonl"], "JSON lines"),
    ],
)
def test_a_list_or_an_option_that_is_no_use_is_one_line(
    content: str | None, args: list[str], words: str, tmp_path: Path
) -> None:
    targets = tmp_path / "list"
    if content is not None:
        targets.write_text(content)
    ended = check("--targets-from", str(targets), *args)
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert words in ended.stderr


def test_standard_input_is_read_for_one_thing_only() -> None:
    for args in (["-"], ["x", "--conversation", "-"]):
        assert "standard input" in check("--targets-from", "-", *args).stderr
    assert "standard input" in check("--targets-from", "-", stdin="-\n").stderr


def test_what_is_in_a_file_is_not_checked_again(
    folder: Path, tmp_path: Path, looked_into: Callable[[], list[str]]
) -> None:
    whole = check(str(folder), "--output-format", "jsonl").stdout.encode()
    assert len(looked_into()) == MANY + 2
    file = tmp_path / "r.jsonl"
    file.write_bytes(whole[: len(whole) * 2 // 3])  # in the middle of a line
    first = check(str(folder), "--resume", str(file), "--jobs", "2")
    again = looked_into()
    assert 0 < len(again) < MANY
    assert file.read_bytes() == whole
    second = check(str(folder), "--resume", str(file))
    assert looked_into() == []
    assert file.read_bytes() == whole
    assert {first.exit_code, second.exit_code} == {2}
    assert first.stdout == second.stdout == ""
    assert second.stderr.endswith(
        f"wrote {file}: the reports of {MANY + 4} templates, {MANY + 3} of them known before\n"
    )
    # Once nothing fails any more, the exit code is that of all lines, old or new.
    (folder / "1" / "bytes.jinja").unlink()
    assert check(str(folder), "--resume", str(file)).exit_code == 0


def test_what_has_changed_is_checked_again_and_lines_are_put_into_order(
    folder: Path, tmp_path: Path, looked_into: Callable[[], list[str]]
) -> None:
    file = tmp_path / "r.jsonl"
    check(str(folder), "--resume", str(file))
    looked_into()
    (folder / "0" / "t03.jinja").write_text(f"{PLAIN}{{# changed #}}", "utf-8")
    (folder / "0" / "t00a.jinja").write_text(PLAIN, "utf-8")
    (folder / "2" / "t02.jinja").unlink()
    check(str(folder), "--resume", str(file))
    assert looked_into() == ["t00a.jinja", "t03.jinja"]
    assert file.read_text() == check(str(folder), "--output-format", "jsonl").stdout
    looked_into()
    # Another tokenizer for one folder, and other options for all.
    (folder / "0" / "tokenizer.json").write_text("{}", "utf-8")
    check(str(folder), "--resume", str(file))
    assert set(looked_into()) == {"t00.jinja", "t00a.jinja", "t03.jinja", "t06.jinja", "t09.jinja"}
    check(str(folder), "--resume", str(file), "--block-size", "64")
    assert len(looked_into()) == MANY + 2


def test_lines_of_other_targets_are_kept(
    folder: Path, tmp_path: Path, looked_into: Callable[[], list[str]]
) -> None:
    file = tmp_path / "r.jsonl"
    check(str(folder / "0"), "--resume", str(file))
    check(str(folder / "1"), "--resume", str(file))
    targets = [line["target"] for line in lines_of(file.read_text())]
    assert targets == [str(folder / "1")] * 5 + [str(folder / "0")] * 4
    looked_into()
    check(str(folder / "0"), str(folder / "1"), "--resume", str(file))
    assert looked_into() == []


@pytest.mark.parametrize("content", [b"{{ messages }}", b"{}\n", b'{"schema": 1}\n', b"\n\n", b"["])
def test_a_file_of_something_else_is_left_alone(folder: Path, content: bytes) -> None:
    other = folder / "other"
    other.write_bytes(content)
    ended = check(str(folder), "--resume", str(other))
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert "line 1 is not one of ours" in ended.stderr
    assert other.read_bytes() == content


@pytest.mark.parametrize("name", ["/dev/full", "pipe"])
def test_what_may_have_no_end_is_not_gone_on_with(folder: Path, name: str) -> None:
    os.mkfifo(folder / "pipe")
    ended = check(str(folder), "--resume", str(folder / name))
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "is not a regular file" in ended.stderr


def test_a_template_whose_child_dies_is_begun_again_once_and_the_rest_goes_on(
    folder: Path, looked_into: Callable[[], list[str]]
) -> None:
    (folder / "1" / "t04.jinja").write_text(f"{PLAIN}{{# once #}}", "utf-8")
    (folder / "2" / "t05.jinja").write_text(f"{PLAIN}{{# dies #}}", "utf-8")
    (folder / "1" / "bytes.jinja").unlink()
    ended = check(str(folder), "--jobs", "2", "--output-format", "jsonl")
    names = looked_into()
    assert {name: names.count(name) for name in set(names) if names.count(name) > 1} == {
        "t04.jinja": 2,
        "t05.jinja": 2,
    }
    (failed,) = (line for line in lines_of(ended.stdout) if line["error"])
    assert failed["file"].endswith("t05.jinja")
    assert failed["error"]["message"] == "the process that checks it was ended by SIGUSR2"
    assert ended.exit_code == 2
    assert len(lines_of(ended.stdout)) == MANY + 3


def test_a_folder_without_templates_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer_config.json").write_text("{}")
    ended = check(str(tmp_path), "--output-format", "jsonl")
    (line,) = lines_of(ended.stdout)
    assert line["error"]["message"] == "holds no chat template"
    assert ended.exit_code == 2


_SLOW = """
import sys, time
from templatefix import api
from tests.report.samples import clean
from dataclasses import replace
def check(template, *more):
    time.sleep(0.05)
    return replace(clean(), target=template.target, display=template.display)
api.check = check
from templatefix.cli import main
sys.argv[0] = "templatefix"
main()
"""


def start(*args: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _SLOW, "check", "--no-search", "--jobs", "2", *args],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_whole_lines_and_no_process(
    number: int, code: int, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "r.jsonl"
    process = start(str(folder), "--resume", str(file))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not file.exists() or file.stat().st_size < 3000):
        time.sleep(0.01)
    born = children(process.pid)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    said = f"templatefix: interrupted: written so far: {file}\n" if code == 130 else ""
    assert (process.returncode, out, err.decode()) == (code, b"", said)
    assert len(born) == 2
    assert not any(Path(f"/proc/{child}").exists() for child in born)
    assert 0 < len(lines_of(file.read_text())) < MANY
    assert file.read_bytes().endswith(b"\n")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_a_bar_on_a_terminal_says_what_is_done_and_failed(folder: Path) -> None:
    ours, theirs = os.openpty()
    process = start(str(folder), "--output-format", "jsonl", stderr=theirs)
    os.close(theirs)
    assert process.stdout is not None
    out = process.stdout.read()
    drawn = b"".join(_terminal(ours))
    assert process.wait(timeout=20) == 2
    assert len(out.splitlines()) == MANY + 4
    assert b"/15" in drawn
    assert b"1 failed" in drawn
    assert b"/s" in drawn
    assert b"left" in drawn
    assert drawn.rstrip().endswith(b"(save it as UTF-8)")


def _terminal(descriptor: int) -> Iterator[bytes]:
    """All that was written to a terminal."""
    while True:
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # the other end was closed
            return
        if not part:
            return
        yield part


def test_an_executor_needs_its_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    ended = check(str(folder), "--executor", "dask://127.0.0.1:8786")
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert 'dask.distributed is not installed (pip install "templatefix[dask]")' in ended.stderr


@pytest.mark.parametrize(
    "args", [["dask://here"], ["ray://h:1"], ["dask://h:1", "--jobs", "2"], ["dask://h:1/x"]]
)
def test_an_executor_is_an_address_and_nothing_beside(args: list[str]) -> None:
    ended = check("x", "--executor", *args)
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert "--executor" in ended.stderr
