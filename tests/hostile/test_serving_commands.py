"""``serve-args`` and ``verify`` work on templates in the child: none hangs or ends the command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from templatefix.cli.program import templatefix
from templatefix.findings.verification import LiveRun
from templatefix.serving.live import VerifyOptions, verify
from templatefix.source import SourceOptions
from templatefix.worker import Limits, Worker
from tests.example import EXAMPLE
from tests.hostile.templates import DEAF, GREEDY, PLAIN, SLOW_IN_C
from tests.processes import children
from tests.serving.loopback import PRESERVING, Loopback, Manners, serving

ROOT = Path(__file__).parents[2]
LIMITS = ["--time-limit", "0.3", "--memory-limit", "200"]
#: A server that tells no token ids, so that they have to be rendered here.
HIDING = Manners(template=PRESERVING, token_ids=False, tokenize=False)

_DEAF = DEAF["a comparison"].removeprefix(PLAIN)
_GREEDY = GREEDY["a growing string"].removeprefix(PLAIN)
_POWER = SLOW_IN_C["a huge power"].removeprefix(PLAIN)
LATE = "{% if messages|length > 4 %}" + _DEAF + "{% endif %}"
UNDER_A_KWARG = "{% if deep_thought %}" + _DEAF + "{% endif %}"
GREEDY_LATE = "{% if messages|length > 4 %}" + _GREEDY + "{% endif %}"
POWER_LATE = "{% if messages|length > 4 %}" + _POWER + "{% endif %}"


def _model(folder: Path, bomb: str) -> str:
    """A model whose template is the server's, but for a bomb."""
    model = folder / "model"
    shutil.copytree(EXAMPLE, model)
    (model / "chat_template.jinja").write_text(PRESERVING + bomb, encoding="utf-8")
    return str(model)


def _run(*words: str) -> Result:
    return CliRunner().invoke(templatefix, words)


def _one_line(ended: Result, words: str) -> None:
    assert ended.exit_code == 1
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


@pytest.mark.parametrize("bomb", [_DEAF, LATE, UNDER_A_KWARG])
def test_no_command_is_made_for_a_template_that_never_comes_back(bomb: str, tmp_path: Path) -> None:
    model = _model(tmp_path, bomb)
    _one_line(_run("serve-args", model, *LIMITS), "rendering takes more than 0.3 s (")
    assert not children(os.getpid())


def test_a_constant_beyond_the_limits_is_one_line_too(tmp_path: Path) -> None:
    model = _model(tmp_path, "{{ ('a ' * 5_000_000) | title | length }}" * 9)
    _one_line(_run("serve-args", model, *LIMITS), "compiling takes more than 0.")


@pytest.mark.parametrize("bomb", [_GREEDY, GREEDY_LATE])
def test_a_template_that_takes_memory_does_not_take_the_command_along(
    bomb: str, tmp_path: Path
) -> None:
    ended = _run("serve-args", _model(tmp_path, bomb), *LIMITS, "--time-limit", "20")
    _one_line(ended, "rendering takes more than 200 MB (")


def test_a_template_on_standard_input_is_served(tmp_path: Path) -> None:
    words = ["serve-args", "-", "--model", "org/name"]
    ended = CliRunner().invoke(templatefix, words, input=PRESERVING)
    assert ended.exit_code == 0
    assert "vllm serve org/name" in ended.stdout


def _verify(loopback: Loopback, target: str, *more: str) -> Result:
    words = [loopback.url, "--model", "tiny", "--target", target, "--turns", "4"]
    return _run("verify", *words, *LIMITS, *more)


@pytest.mark.parametrize(
    ("bomb", "more", "words", "asked"),
    [
        (LATE, (), "rendering takes more than 0.3 s (turn ", 3),
        (POWER_LATE, (), "rendering takes more than 0.3 s", 3),
        (GREEDY_LATE, ("--time-limit", "20"), "rendering takes more than 200 MB", 3),
        (
            UNDER_A_KWARG,
            ("--kwargs", '{"deep_thought": true}'),
            "rendering takes more than 0.3 s (turn 1, deep_thought=true)",
            1,
        ),
        (_DEAF, (), "rendering takes more than 0.3 s (turn 1, default kwargs)", 0),
    ],
)
def test_a_target_beyond_the_limits_ends_a_verification(
    bomb: str, more: Sequence[str], words: str, asked: int, tmp_path: Path
) -> None:
    with serving(HIDING) as loopback:
        ended = _verify(loopback, _model(tmp_path, bomb), *more)
        assert len(loopback.sent("/v1/chat/completions")) == asked
    _one_line(ended, words)
    assert not children(os.getpid())


def test_a_target_that_behaves_is_held_to_the_server(tmp_path: Path) -> None:
    with serving(HIDING) as loopback:
        ended = _verify(loopback, _model(tmp_path, UNDER_A_KWARG))
        assert len(loopback.sent("/v1/chat/completions")) == 4
    assert ended.exit_code == 0, ended.output
    assert "in 3 of 3 turns" in ended.stdout


@pytest.mark.parametrize("candidate", [None, PRESERVING + "{# another #}"])
def test_a_twin_in_the_child_knows_what_one_in_the_process_knows(candidate: str | None) -> None:
    hiding = Manners(token_ids=False, tokenize=False, trusts_templates=True)
    found: list[tuple[LiveRun, ...]] = []
    with Worker(Limits()) as worker:
        target = worker.the_template(str(EXAMPLE), SourceOptions())
        for twin_of in (worker.twin, None):
            with serving(hiding) as loopback:
                options = VerifyOptions("tiny", target=target, template=candidate)
                found.append(verify(loopback.url, options, twin_of=twin_of).runs)
    assert [run.turns for run in found[0]] == [run.turns for run in found[1]]
    assert len(found[0]) == (1 if candidate is None else 2)
    assert all(turn.predicted and turn.predicted.exact for turn in found[0][0].turns[1:])


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["serve-args", "verify"])
def test_an_interrupt_leaves_no_child(command: str, number: int, tmp_path: Path) -> None:
    model = _model(tmp_path, LATE)
    with serving(HIDING) as loopback:
        words = [model] if command == "serve-args" else [loopback.url, "--model", "tiny"]
        if command == "verify":
            words += ["--target", model]
        parent = subprocess.Popen(
            [sys.executable, "-m", "templatefix", command, *words, "--time-limit", "100"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        child = _stuck_child(parent.pid)
        parent.send_signal(number)
        out, err = parent.communicate(timeout=30)
    assert parent.returncode == 128 + number
    said = b"templatefix: interrupted: nothing was written\n" if number == signal.SIGINT else b""
    assert (out, err) == (b"", said)
    assert not Path(f"/proc/{child}").exists()


def _stuck_child(pid: int) -> int:
    """The first child, once it has been at work for a good second."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for child in children(pid):
            ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11]
            if int(ticks) > 1.5 * os.sysconf("SC_CLK_TCK"):
                return child
        time.sleep(0.02)
    raise AssertionError("no child is at work")
