"""How the program ends when it is interrupted, or when nobody reads what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from templatefix.cli.output import write_file
from tests.cli.stub import ROOT, start

WAITING = """
    sys.stderr.write("started\\n")
    sys.stderr.flush()
    time.sleep(60)
"""
REPORTING = """
    from tests.report.samples import report
    return [report() for _ in range(200)]
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_in_a_line_at_most_and_leaves_no_partial_file(
    number: int, code: int, tmp_path: Path
) -> None:
    output = tmp_path / "report.txt"
    output.write_text("the report of yesterday")
    process = start(WAITING, "check", "x", "--output", str(output))
    assert process.stderr is not None
    assert process.stderr.readline() == b"started\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code
    said = b"templatefix: interrupted: nothing was written\n" if code == 130 else b""
    assert (out, err) == (b"", said)
    assert output.read_text() == "the report of yesterday"
    assert os.listdir(tmp_path) == ["report.txt"]


@pytest.mark.parametrize("args", [("check", "x"), ("check", "x", "--output-format", "json")])
def test_a_closed_pipe_ends_with_141_and_no_complaint(args: tuple[str, ...]) -> None:
    process = start(REPORTING, *args)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    complaint = process.stderr.read()
    assert process.wait(timeout=20) == 141
    assert complaint == b""


@pytest.mark.parametrize("args", [["--help"], ["rules"], ["check", "--help"], ["explain", "TF101"]])
def test_a_closed_pipe_ends_every_command_alike(args: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "templatefix", *args],
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["--help"], ["rules"]])
def test_a_full_disk_is_one_line(args: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "templatefix", *args],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"templatefix: standard output: cannot be written")
    assert ended.stderr.count(b"\n") == 1


def test_reports_are_utf8_whatever_the_locale_says() -> None:
    body = """
    from tests.report.samples import report, finding
    return [report(findings=(finding(message="caf\\u00e9 \\ud800"),))]
    """
    process = start(body, "check", "x")
    out, err = process.communicate(timeout=20)
    assert err == b""
    assert "café \\ud800" in out.decode("utf-8")


def test_output_is_written_whole_keeps_its_mode_and_follows_links(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    process = start(REPORTING, "check", "x", "--output-format", "json", "--output", str(link))
    out, _ = process.communicate(timeout=20)
    assert out == b""
    assert link.is_symlink()
    assert real.read_text().startswith('{\n  "schema": 1')
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.json", "real.json"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_progress_is_drawn_on_a_terminal_only_and_erased() -> None:
    slow = """
    time.sleep(1.6)
    from tests.report.samples import clean
    return [clean()]
    """
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _script(slow)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    os.close(theirs)
    drawn = b""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            part = os.read(ours, 1000)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    assert process.wait(timeout=20) == 0
    assert b"checking x (1 of 1) (1 s)" in drawn
    assert drawn.endswith(b"\r\x1b[K")
    piped = start(slow, "check", "x")
    assert piped.communicate(timeout=20)[1] == b""


def _script(body: str) -> str:
    return (
        "import sys, time\n"
        "from templatefix import api\n"
        "def check_each(target, source, options, stdin=None, alone=True, **more):\n"
        f"{body}\n"
        "api.check_each = check_each\n"
        "from templatefix.cli import main\n"
        "sys.argv = ['templatefix', 'check', 'x']\n"
        "main()\n"
    )


def test_an_interrupted_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(str(tmp_path / "report.txt"), "text")
    assert os.listdir(tmp_path) == []
