"""The child process: what it is killed for is a finding, and all other work goes on."""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from templatefix import api
from templatefix.checking import check
from templatefix.cli.program import templatefix
from templatefix.errors import TargetError
from templatefix.findings.outcome import Report
from templatefix.patching.repair import PatchOptions
from templatefix.report.edition import Edition
from templatefix.report.json_report import json_report
from templatefix.rules import RULES
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.worker import Job, Limits, Worker
from tests.example import EXAMPLE
from tests.hostile.templates import BROKEN, DEAF, FAILING, HIDDEN, LARGE, PLAIN, SLOW_IN_C
from tests.processes import first_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

ROOT = Path(__file__).parents[2]
LIMITS = Limits(seconds=0.3, megabytes=200, characters=1_000_000)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(LIMITS) as started:
        yield started


def _file(folder: Path, text: str, name: str = "x.jinja") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def _codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def _json(*reports: Report) -> str:
    return json_report(reports, Edition("1", "x", "jinja", "now"), full=True)


@pytest.mark.parametrize("name", DEAF)
def test_what_hears_no_signal_is_killed_and_reported(
    name: str, worker: Worker, tmp_path: Path
) -> None:
    target = _file(tmp_path, DEAF[name])
    (report,) = worker.check(Job(target))
    assert report.fault is not None
    assert report.fault.code == "TF601"
    assert _codes(report) == {"TF601"}
    assert "rendering takes more than 0.3 s (turn 1, default kwargs)" in report.fault.message
    assert (report.display, report.source) == (target, DEAF[name])


@pytest.mark.parametrize("name", SLOW_IN_C)
def test_what_does_hear_it_leaves_the_rest_of_the_check(
    name: str, worker: Worker, tmp_path: Path
) -> None:
    (report,) = worker.check(Job(_file(tmp_path, SLOW_IN_C[name])))
    assert report.fault is None
    assert "TF601" in _codes(report)


@pytest.mark.parametrize("name", [*LARGE, *BROKEN])
def test_what_tries_the_parser_is_a_finding(name: str, worker: Worker, tmp_path: Path) -> None:
    (report,) = worker.check(Job(_file(tmp_path, {**LARGE, **BROKEN}[name])))
    assert report.fault is not None
    assert report.fault.code in ("TF601", "TF902")
    assert _codes(report) == {report.fault.code}


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_by_itself_is_a_crash_as_ever(name: str, worker: Worker, tmp_path: Path) -> None:
    (report,) = worker.check(Job(_file(tmp_path, FAILING[name])))
    assert "TF203" in _codes(report)


def test_forty_kwargs_are_not_combined(worker: Worker, tmp_path: Path) -> None:
    read = "".join(f"{{% if kwarg_{i} %}}x{i}{{% endif %}}" for i in range(40))
    (report,) = worker.check(Job(_file(tmp_path, PLAIN + read)))
    assert "TF601" not in _codes(report)
    assert len(report.coverage.modes) <= 16


def test_the_templates_after_a_killed_one_are_checked(worker: Worker, tmp_path: Path) -> None:
    for name, text in (("a", PLAIN), ("b", DEAF["a hash"]), ("c", "{{ messages"), ("d", PLAIN)):
        _file(tmp_path, text, f"{name}.jinja")
    (tmp_path / "bytes.jinja").write_bytes(b"\xff\xfe\x00messages")
    reports = list(worker.check(Job(str(tmp_path))))
    outcomes = {
        Path(each.display).name: each.fault.code if each.fault else each.verdict for each in reports
    }
    assert len(reports) == 5
    assert outcomes["a.jinja"] == outcomes["d.jinja"] == "preserving"
    assert (outcomes["b.jinja"], outcomes["c.jinja"]) == ("TF601", "TF902")


def test_a_check_in_the_child_is_the_check(worker: Worker) -> None:
    target, options = str(EXAMPLE), api.CheckOptions(max_examples=5, full=True)
    theirs = list(worker.check(Job(target, options=options)))
    assert _json(*theirs) == _json(*api.check_target(target, SourceOptions(), options))


def test_a_template_on_standard_input(worker: Worker) -> None:
    given = base64.b64encode(PLAIN.encode()).decode()
    (report,) = worker.check(Job("-", given=given))
    assert (report.verdict, report.source) == ("preserving", PLAIN)


def test_what_a_template_prints_comes_back_whole(worker: Worker, tmp_path: Path) -> None:
    text = "{{ raise_exception('\\ud800 \\x00 caf\u00e9') }}{{ messages }}"
    (report,) = worker.check(Job(_file(tmp_path, text)))
    assert "\ud800 \x00 caf\u00e9" in {each.detail for each in report.findings}


def test_a_repair_in_the_child_is_the_repair(worker: Worker, tmp_path: Path) -> None:
    target = _file(tmp_path, RULES["TF104"].bad)
    template = worker.the_template(target, SourceOptions())
    assert template == api.the_template(target, SourceOptions())
    options = PatchOptions(max_examples=2)
    repaired = worker.patch(template, options)
    assert repaired.status == "patched"
    assert repaired == api.patch_template(template, options)


@pytest.mark.parametrize("name", ["a comparison", "in a late turn only", "under one kwarg only"])
def test_a_bomb_is_not_repaired(name: str, worker: Worker, tmp_path: Path) -> None:
    target = _file(tmp_path, {**DEAF, **HIDDEN}[name])
    template = worker.the_template(target, SourceOptions())
    with pytest.raises(TargetError, match=r"rendering takes more than 0\.3 s") as refused:
        worker.patch(template, PatchOptions())
    assert refused.value.code == "TF601"


def test_a_template_too_large_to_be_parsed_is_not_repaired(worker: Worker, tmp_path: Path) -> None:
    target = _file(tmp_path, LARGE["ten megabytes of expressions"])
    with pytest.raises(TargetError, match="more than 1000000") as refused:
        worker.the_template(target, SourceOptions())
    assert refused.value.code == "TF601"


def test_a_child_that_dies_by_itself_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        """As that of tokenizers."""

    def dying(template: ChatTemplate, *args: object) -> Report:
        if "panic" in template.display:
            raise Panic("no entry found for key")
        if "signal" in template.display:
            os.kill(os.getpid(), signal.SIGUSR2)
        return check(template, *args)  # type: ignore[arg-type]

    monkeypatch.setattr("templatefix.api.check", dying)
    for name in ("a-panic", "b-signal", "c-plain"):
        _file(tmp_path, PLAIN, f"{name}.jinja")
    with Worker(LIMITS) as worker:
        panic, killed, plain = worker.check(Job(str(tmp_path)))
    assert panic.fault is not None
    assert "Panic: no entry found for key" in panic.fault.message
    assert killed.fault is not None
    assert killed.fault.message == "the process that checks it was ended by SIGUSR2"
    assert {panic.fault.code, killed.fault.code} == {"TF901"}
    assert plain.verdict == "preserving"


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps(1)")
def test_where_the_system_limits_no_memory_the_parent_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("templatefix.limits._IN_USE", str(tmp_path / "absent"))
    grows = PLAIN + (
        "{% set ns = namespace(x=[]) %}{% for i in range(90000) %}"
        "{% set ns.x = ns.x + [range(90000)|list] %}{% endfor %}"
    )
    _file(tmp_path, grows, "a.jinja")
    _file(tmp_path, PLAIN, "b.jinja")
    with Worker(Limits(seconds=60, megabytes=100)) as worker:
        grown, plain = worker.check(Job(str(tmp_path)))
    assert grown.fault is not None
    assert grown.fault.code == "TF601"
    assert "takes more than 100 MB" in grown.fault.message
    assert plain.verdict == "preserving"


def test_exit_codes_of_the_command_line(tmp_path: Path) -> None:
    bomb, fine = _file(tmp_path, DEAF["a sort"]), _file(tmp_path, PLAIN, "fine.jinja")
    limits = ["--time-limit", "0.3", "--memory-limit", "200"]
    checked = CliRunner().invoke(
        templatefix, ["check", bomb, fine, "--no-search", "--output-format", "json", *limits]
    )
    assert checked.exit_code == 1
    over, clean = json.loads(checked.stdout)["reports"]
    assert over["error"]["code"] == "TF601"
    assert clean["verdict"] == "preserving"
    out = tmp_path / "out.jinja"
    patched = CliRunner().invoke(templatefix, ["patch", bomb, "--out", str(out), *limits])
    assert patched.exit_code == 1
    assert "rendering takes more than 0.3 s" in patched.stderr
    assert not out.exists()
    large = _file(tmp_path, LARGE["ten megabytes of text"])
    assert CliRunner().invoke(templatefix, ["ready", "for", large]).exit_code == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not end children")
def test_the_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    bomb = _file(tmp_path, DEAF["a comparison"])
    parent = subprocess.Popen(
        [sys.executable, "-m", "templatefix", "check", bomb, "--time-limit", "100"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    child = first_child(parent.pid)
    assert child is not None
    deadline = time.monotonic() + 60
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "words", [["check", str(EXAMPLE)], ["patch", str(EXAMPLE), "--diff"], ["ready", "list"]]
)
def test_where_no_process_can_be_started_one_line_says_so(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    before = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    ended = CliRunner().invoke(templatefix, words)
    if words[0] == "ready":  # needs none
        assert ended.exit_code == 0
        return
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert ended.stderr == (
        f"templatefix: this machine: no process can be started: {os.strerror(errno.EAGAIN)} "
        "(end others, or allow more of them and more memory)\n"
    )
    assert before is None or sorted(os.listdir("/proc/self/fd")) == before
