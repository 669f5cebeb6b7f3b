"""A program whose targets come to what a test says: the command line without a check."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from templatefix import api
from templatefix.cli.program import templatefix
from templatefix.findings.outcome import Report
from templatefix.worker import Job, Outcome, Worker

ROOT = Path(__file__).parents[2]


@dataclass
class Call:
    """What was asked of the check."""

    target: str
    source: api.SourceOptions
    options: api.CheckOptions
    alone: bool


@dataclass
class Program:
    """Runs the command line in this process; ``outcomes`` says what each target comes to."""

    outcomes: dict[str, Report] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def __call__(self, *args: str, stdin: str | bytes | None = None, **env: str) -> Result:
        return CliRunner().invoke(templatefix, args, input=stdin, env=env)

    def json(self, *args: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self(*args, "--output-format", "json").stdout)
        return document

    def check_target(
        self,
        target: str,
        source: api.SourceOptions,
        options: api.CheckOptions,
        stdin: Any = None,
        alone: bool = True,
    ) -> list[Report]:
        self.calls.append(Call(target, source, options, alone))
        return [replace(self.outcomes[target], target=target, display=target)]


def stubbed(monkeypatch: pytest.MonkeyPatch, outcomes: Mapping[str, Report]) -> Program:
    program = Program(dict(outcomes))

    def steps(worker: Worker, job: Job) -> Iterator[Callable[[], Outcome]]:
        for each in program.check_target(job.target, job.source, job.options, alone=job.alone):
            yield partial(Outcome, each)

    # In this process, which sees what is asked.
    monkeypatch.setattr(Worker, "__enter__", lambda worker: worker)
    monkeypatch.setattr(Worker, "steps", steps)
    return program


Stub = Callable[[Mapping[str, Report]], Program]


def start(body: str, *args: str, **options: Any) -> subprocess.Popen[bytes]:
    """The real program in a process of its own, where ``body`` is what checking a target does."""
    script = (
        "import sys, time\n"
        "from templatefix import api\n"
        "def check_each(target, source, options, stdin=None, alone=True, **more):\n"
        f"{textwrap.indent(textwrap.dedent(body), '    ')}\n"
        "api.check_each = check_each\n"
        "from templatefix.cli import main\n"
        f"sys.argv = {['templatefix', *args]!r}\n"
        "main()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=options.pop("cwd", ROOT),
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"},
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        **options,
    )
