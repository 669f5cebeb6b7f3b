"""A child has its next target while it works on another: none of them is lost with the child."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from templatefix.worker import Crew, Job, Limits, crew, work
from tests.hostile.templates import DEAF, PLAIN

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

LIMITS = Limits(seconds=0.3, megabytes=200, characters=1_000_000)

#: What becomes of a target, by its name.
ENDS = {"good": "preserving", "deaf": "TF601", "exits": "TF901", "fails": "TF901"}


@pytest.fixture(autouse=True)
def always_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_LAST", 0)


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children end or fail by themselves at targets that are named so."""
    check = work.check

    def fail(_: object) -> None:
        raise RuntimeError("a bug")

    def faulty_check(job: Job, tell: Callable[..., None], begun: Callable[..., bool]) -> None:
        if "exits" in job.target:
            os._exit(3)
        check(job, fail if "fails" in job.target else tell, begun)

    monkeypatch.setattr(work, "check", faulty_check)


def _ends(jobs: list[Job], size: int) -> list[list[str]]:
    with Crew(LIMITS, size) as workers:
        return [[_end(each.report) for each in found] for found in workers.check(jobs)]


def _end(report: Any) -> str:
    return str(report.fault.code if report.fault else report.verdict)


def test_every_target_is_told_once_whatever_becomes_of_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limits, "longest", 0.5)
    jobs, wanted = [], []
    # Each kind before each other, and before itself.
    good, deaf, exits, fails = ENDS
    row = [good, good, deaf, good, exits, good, fails, deaf, deaf, exits, deaf, fails, exits]
    for number, kind in enumerate([*row, exits, fails, fails, good]):
        file = tmp_path / f"{number}-{kind}.jinja"
        file.write_text(DEAF["a hash"] if kind == "deaf" else PLAIN, encoding="utf-8")
        jobs.append(Job(str(file)))
        wanted.append([ENDS[kind]])
    assert _ends(jobs, 1) == wanted


def test_what_no_pipe_takes_ahead_is_asked_in_time() -> None:
    text = PLAIN + "{# " + "x" * 200_000 + " #}"
    given = base64.b64encode(text.encode()).decode()
    assert _ends([Job("-", given=given)] * 4, 1) == [["preserving"]] * 4
