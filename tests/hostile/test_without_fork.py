"""A child where there is no fork: the command line in a Python that lacks what Windows lacks.

See ``bereft/sitecustomize.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.templates import DEAF, GREEDY, HIDDEN, LOUD, PLAIN, SLOW, SLOW_IN_C
from tests.processes import children

ROOT = Path(__file__).parents[2]
BEREFT = Path(__file__).parent / "bereft"
#: Templates that take too long, each with what is said of it.
ENDED = {
    "nested ranges": (SLOW["nested ranges"], "rendering takes more than 1 s"),
    "a comparison": (DEAF["a comparison"], "rendering takes more than 1 s"),
    "a huge power": (SLOW_IN_C["a huge power"], "rendering takes more than 1 s"),
    "under one kwarg only": (HIDDEN["under one kwarg only"], "(turn 1, deep_thought=true)"),
    "in a late turn only": (HIDDEN["in a late turn only"], "turn 3, default kwargs"),
    "while it is compiled": (
        PLAIN + "{{ ('a ' * 5_000_000) | title | length }}" * 9,
        "compiling takes more than 1 s",
    ),
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing need be taken away there")


def _environment(*, bereft: bool, path: str | None = None) -> dict[str, str]:
    python = os.pathsep.join([str(BEREFT)] * bereft + [str(ROOT)])
    return {**os.environ, "PYTHONPATH": python, "PATH": path or os.environ["PATH"]}


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "templatefix", *arguments]


def _run(
    *arguments: str, bereft: bool = True, stdin: bytes = b"", path: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        _command(arguments),
        env=_environment(bereft=bereft, path=path),
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )


def _file(folder: Path, text: str, name: str = "x.jinja") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def _outcomes(ended: subprocess.CompletedProcess[bytes]) -> list[tuple[str, str | None]]:
    reports: list[dict[str, Any]] = json.loads(ended.stdout)["reports"]
    return [(each["verdict"], each["error"] and each["error"]["code"]) for each in reports]


def test_what_is_taken_away_is_away() -> None:
    lacks = "import os, select, signal; print(hasattr(os, 'fork'), hasattr(select, 'poll'), end='')"
    lacks += "; print(hasattr(signal, 'setitimer')); import resource"
    ended = subprocess.run(
        [sys.executable, "-c", lacks],
        env=_environment(bereft=True),
        capture_output=True,
        check=False,
    )
    assert ended.stdout.split() == [b"False", b"FalseFalse"]
    assert b"import of resource halted" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["check", "templatefix/example", "--output-format", "json", "--max-examples", "5"],
        ["check", "patched_templates/qwen3.jinja", "patched_templates/phi-3.jinja", "--jobs", "2"],
        ["check", "templatefix/example", "--output-format", "html", "--no-recover", "--no-search"],
        ["patch", "templatefix/example", "--out", "-", "--max-examples", "1"],
        ["survey", "templatefix/example", "--max-examples", "2"],
        ["ready", "for", "patched_templates/qwen3.jinja"],
        ["serve-args", "templatefix/example"],
    ],
)
def test_what_a_command_prints_is_what_it_prints_with_fork(arguments: list[str]) -> None:
    ours, theirs = _run(*arguments), _run(*arguments, bereft=False)
    assert ours.stderr == theirs.stderr
    assert ours.stdout == theirs.stdout
    assert ours.returncode == theirs.returncode
    assert ours.stdout


@pytest.mark.parametrize("name", ENDED)
def test_a_step_that_outlives_its_time_is_ended_and_reported(name: str, tmp_path: Path) -> None:
    text, words = ENDED[name]
    begun = time.monotonic()
    ended = _run(
        "check", _file(tmp_path, text), "--no-search", "--time-limit", "1", "--color", "never"
    )
    assert ended.returncode == 1
    told = " ".join(ended.stderr.decode().split() + ended.stdout.decode().split())
    assert "TF601" in told
    assert words in told
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("has_ps", [True, False])
def test_what_takes_memory_is_ended_by_a_parent_that_looks(has_ps: bool, tmp_path: Path) -> None:
    if not has_ps:
        pytest.importorskip("psutil")
    target = _file(tmp_path, GREEDY["a growing list"])
    limits = ["--time-limit", "20", "--memory-limit", "300"]
    ended = _run("check", target, "--no-search", *limits, path=None if has_ps else str(tmp_path))
    assert ended.returncode == 1
    assert b"takes more than 300 MB" in b" ".join(ended.stderr.split() + ended.stdout.split())


def test_a_flood_is_cut_off_and_the_rest_is_checked(tmp_path: Path) -> None:
    target = _file(tmp_path, LOUD["a flood of pieces"])
    ended = _run("check", target, "--no-search", "--output-format", "json")
    (report,) = json.loads(ended.stdout)["reports"]
    assert report["error"] is None
    assert "TF601" in {each["code"] for each in report["findings"]}


def test_the_templates_after_a_killed_one_are_checked(tmp_path: Path) -> None:
    for name, text in (("a", PLAIN), ("b", DEAF["a hash"]), ("c", "{{ messages"), ("d", PLAIN)):
        _file(tmp_path, text, f"{name}.jinja")
    ended = _run(
        *("check", str(tmp_path), "--jobs", "2", "--no-search", "--output-format", "json"),
        *("--time-limit", "3"),
    )
    assert ended.returncode == 1
    verdicts = [("preserving", None), ("error", "TF601"), ("error", "TF902"), ("preserving", None)]
    assert _outcomes(ended) == verdicts


@pytest.mark.parametrize("name", ["a comparison", "in a late turn only"])
def test_a_bomb_is_not_repaired(name: str, tmp_path: Path) -> None:
    target = _file(tmp_path, {**DEAF, **HIDDEN}[name])
    out = tmp_path / "out.jinja"
    ended = _run("patch", target, "--out", str(out), "--time-limit", "1")
    assert ended.returncode == 1
    assert b"rendering takes more than 1 s" in ended.stderr
    assert ended.stderr.count(b"\n") == 1
    assert not out.exists()


def test_a_recording_on_standard_input_reaches_the_child() -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "Where is Porto?"}]})
    more = json.dumps(
        {
            "messages": [
                {"role": "user", "content": "Where is Porto?"},
                {"role": "assistant", "content": "On the Douro."},
                {"role": "user", "content": "And Lisbon?"},
            ]
        }
    )
    arguments = ["check", "templatefix/example", "--recorded", "-", "--output-format", "json"]
    recording = f"{line}\n{more}\n".encode()
    ours = _run(*arguments, stdin=recording)
    theirs = _run(*arguments, bereft=False, stdin=recording)
    assert ours.stderr == theirs.stderr
    assert ours.stdout == theirs.stdout
    assert json.loads(ours.stdout)["reports"][0]["recorded"]["requests"] == 2


def test_lines_are_gone_on_with(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    arguments = ["check", "templatefix/example", "patched_templates/qwen3.jinja", "--no-search"]
    _run(*arguments, "--resume", str(lines))
    written = lines.read_bytes()
    arguments[1:3] = arguments[2:0:-1]
    ended = _run(*arguments, "--resume", str(lines))
    assert b"the reports of 2 templates, 2 of them known before" in ended.stderr
    assert sorted(lines.read_bytes().splitlines()) == sorted(written.splitlines())
    assert lines.read_bytes() != written


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("name", ["a comparison", "nested ranges"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_child_outlives_its_parent(number: int, name: str, tmp_path: Path) -> None:
    bomb = _file(tmp_path, {**DEAF, **SLOW}[name])
    # A killed parent cannot end a child that holds the interpreter: that has its own clock.
    limit = "3" if (number, name) == (signal.SIGKILL, "a comparison") else "100"
    parent = subprocess.Popen(
        _command(["check", bomb, "--no-search", "--time-limit", limit]),
        env=_environment(bereft=True, path=str(tmp_path)),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    child = _busy_child(parent.pid)
    parent.send_signal(number)
    assert parent.wait(timeout=30) == {2: 130, 15: 143, 9: -9}[number]
    until = time.monotonic() + 30
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(child)


def _busy_child(pid: int) -> int:
    """The first child, once it is at work on the template."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for child in children(pid):
            ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11]
            if int(ticks) > 0.5 * os.sysconf("SC_CLK_TCK"):
                return child
        time.sleep(0.02)
    raise AssertionError("no child has come to work")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_child_prints_is_no_answer(tmp_path: Path) -> None:
    """Neither what Python prints there nor what a library does."""
    noisy = tmp_path / "noise"
    noisy.mkdir()
    (noisy / "noise.py").write_text(
        "import os\n"
        "from templatefix import api\n"
        "before = api.check_each\n"
        "def check_each(*args, **more):\n"
        "    print('printed', flush=True)\n"
        "    os.write(1, b'written\\n')\n"
        "    assert os.read(0, 1) == b''\n"
        "    yield from before(*args, **more)\n"
        "api.check_each = check_each\n"
    )
    program = (
        "import sys; import templatefix.worker.spawned as spawned; "
        f"spawned._PROGRAM = spawned._PROGRAM.replace('main()', 'import noise; main()'); "
        f"sys.path.insert(0, {str(noisy)!r}); from templatefix.cli import main; main()"
    )
    target = _file(tmp_path, PLAIN)
    ended = subprocess.run(
        [sys.executable, "-c", program, "check", target, "--no-search", "--output-format", "json"],
        env=_environment(bereft=True),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert _outcomes(ended) == [("preserving", None)]
    assert sorted(ended.stderr.split()) == [b"printed", b"written"]
