"""A real Dask scheduler and real workers on this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.hostile.templates import DEAF, PLAIN
from tests.hub import ROOT

pytestmark = [
    pytest.mark.dask,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]
pytest.importorskip("distributed", reason="needs the extra dask")

MANY = 14
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def _started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", *words], stdout=log, stderr=log, env=ENVIRONMENT, cwd=folder
        )


@dataclass
class Cluster:
    """A scheduler, and the workers that were started for it."""

    folder: Path
    port: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        where = ["--host", "127.0.0.1", "--port", str(self.port)]
        scheduler = ["distributed.cli.dask_scheduler", *where, "--no-dashboard"]
        self.processes.append(_started(self.folder, *scheduler))

    @property
    def url(self) -> str:
        return f"dask://127.0.0.1:{self.port}"

    def worker(self) -> subprocess.Popen[bytes]:
        address = f"tcp://127.0.0.1:{self.port}"
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        self.processes.append(
            _started(self.folder, "distributed.cli.dask_worker", address, *options)
        )
        return self.processes[-1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(MANY):
        (folder / f"t{number:02}.jinja").write_text(f"{PLAIN}{{# {number} #}}", "utf-8")
    (folder / "t05.jinja").write_text(DEAF["a comparison"], "utf-8")
    (folder / "t06.jinja").write_bytes(b"\xff\xfe\x00messages")
    return folder


def check(folder: Path, *args: str) -> subprocess.Popen[str]:
    options = ["--time-limit", "0.4", "--max-examples", "3"]
    return subprocess.Popen(
        [sys.executable, "-m", "templatefix", "check", str(folder), *options, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        cwd=ROOT,
    )


def _below(pid: int) -> list[int]:
    """The processes that a process has started, and that these have."""
    try:
        born = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        tasks = Path(f"/proc/{pid}/task").iterdir()
        born += [word for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return []
    children = {int(word) for word in born}
    return [*children, *(each for child in children for each in _below(child))]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_that_is_killed_loses_nothing_and_repeats_nothing(
    cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    victim, _ = cluster.worker(), cluster.worker()
    file = tmp_path / "r.jsonl"
    process = check(folder, "--executor", cluster.url, "--resume", str(file))
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and (not file.exists() or not file.stat().st_size):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    born = _below(victim.pid)
    victim.send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, ""), err
    assert "t06.jinja: is UTF-16" in err
    local, _ = check(folder, "--output-format", "jsonl").communicate(timeout=120)
    assert len(local.splitlines()) == MANY
    assert file.read_text() == local
    errors = [json.loads(line)["error"] for line in local.splitlines()]
    codes = [error and error["code"] for error in errors]
    assert codes[4:8] == [None, "TF601", "TF901", None]
    while any(map(_runs, born)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert born
    assert not any(map(_runs, born))


def test_what_is_missing_is_one_line(cluster: Cluster, folder: Path) -> None:
    nobody = check(folder, "--executor", cluster.url)
    nowhere = check(folder, "--executor", "dask://127.0.0.1:9")
    for process, words, hint in (
        (nobody, "the scheduler has no workers", "dask worker"),
        (nowhere, "no Dask scheduler answers there", "dask scheduler"),
    ):
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
        assert words in err
        assert hint in err
