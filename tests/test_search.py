"""The search finds what the battery cannot see, and shows it by a small conversation."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from templatefix.api import read_conversation
from templatefix.chat.given import scenario_of
from templatefix.checking import CheckOptions, check
from templatefix.findings.blame import Blame
from templatefix.findings.finding import Finding, Location
from templatefix.findings.outcome import Report
from tests.example import EXAMPLE
from tests.processes import first_child
from tests.subjects import APPENDS, APPENDS_ALL, branches, report, template

search_module: Any = importlib.import_module("templatefix.checking.search")

ROOT = Path(__file__).parents[1]
_HEADER = "{{- '<|im_start|>assistant\\n' }}"
_END = "{{- '<|im_end|>\\n' }}"
SEARCHED = CheckOptions(max_examples=20)

#: The battery has no backslash, and no argument with whitespace around it, and no list of days.
BACKSLASH = branches(_HEADER + "{{- message.content.replace('\\\\', '/') }}" + _END)
CALLS = branches(
    _HEADER
    + "{{- message.content }}{%- for call in message.tool_calls or [] %}"
    + '{{- \'<tool_call>{"name": "\' + call.function.name + \'", "arguments": \' }}'
    + "{{- ARGUMENTS }}{{- '}</tool_call>' }}{%- endfor %}"
    + _END
)
TRIMS = CALLS.replace(
    "ARGUMENTS",
    "'{' }}{%- for key, value in call.function.arguments.items() %}"
    "{{- key | tojson + ': ' + (value | trim if value is string else value) | tojson }}"
    "{{- '' if loop.last else ', ' }}{%- endfor %}{{- '}'",
)
CRASHES = CALLS.replace(
    "ARGUMENTS",
    "call.function.arguments | tojson + (call.function.arguments.days.k.x.y"
    " if call.function.arguments.days is mapping else '')",
)


@lru_cache(maxsize=8)
def _searched(text: str, seed: int = 0) -> Report:
    return report(text, CheckOptions(max_examples=20, seed=seed))


def _given(text: str, conversation: Mapping[str, Any]) -> Report:
    options = CheckOptions(conversation=conversation)
    return check(template(text), options, scenario=scenario_of(conversation))


def _found(text: str) -> list[Finding]:
    return [finding for finding in _searched(text).findings if finding.conversation is not None]


def test_the_battery_does_not_see_the_planted_faults() -> None:
    for text in (BACKSLASH, TRIMS, CRASHES):
        codes = {finding.code for finding in report(text).findings}
        assert not codes & {"TF104", "TF106", "TF203"}


def test_a_planted_fault_is_found_and_blamed() -> None:
    (finding,) = _found(BACKSLASH)
    assert (finding.code, finding.scenario, finding.severity) == ("TF104", "search", "warning")
    assert finding.locations[0].snippet == "message.content.replace('\\\\', '/')"
    assert _searched(BACKSLASH).verdict == "preserving"


def test_the_counterexample_is_small() -> None:
    (finding,) = _found(BACKSLASH)
    assert finding.conversation is not None
    messages = finding.conversation["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == "a0\\"
    assert "tools" not in finding.conversation


def test_a_fault_in_the_arguments_of_a_call_is_found() -> None:
    (finding,) = _found(TRIMS)
    assert finding.code == "TF106"
    assert finding.conversation is not None
    calls = [call for m in finding.conversation["messages"] for call in m.get("tool_calls", ())]
    values = [v for call in calls for v in json.loads(call["function"]["arguments"]).values()]
    assert any(isinstance(value, str) and value != value.strip() for value in values)


@pytest.mark.parametrize("text", [BACKSLASH, TRIMS], ids=["content", "call"])
def test_the_counterexample_shows_the_same_fault_when_it_is_given(text: str) -> None:
    for finding in _found(text):
        spelled = json.dumps(finding.conversation)
        conversation = read_conversation(spelled, "found")
        again = _given(text, conversation)
        assert again.verdict == "breaks"
        shown = next(f for f in again.findings if f.code == finding.code)
        assert (shown.line, shown.column) == (finding.line, finding.column)


def test_a_crash_that_the_battery_does_not_provoke_is_found_with_its_conversation() -> None:
    (finding,) = _found(CRASHES)
    assert finding.code == "TF203"
    assert finding.detail.startswith("UndefinedError")
    assert finding.conversation is not None
    conversation = read_conversation(json.dumps(finding.conversation), "found")
    again = _given(CRASHES, conversation)
    assert "TF203" in {f.code for f in again.findings}


@pytest.mark.parametrize("text", [APPENDS, APPENDS_ALL])
def test_nothing_is_found_where_nothing_is_wrong(text: str) -> None:
    assert _found(text) == []
    assert {f.code for f in _searched(text).findings} <= {"TF108", "TF301", "TF407"}


def test_nothing_is_searched_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "_find", pytest.fail)
    report(BACKSLASH, CheckOptions(max_examples=0))


def test_a_fault_that_the_battery_found_is_not_searched_again() -> None:
    upper = branches(_HEADER + "{{- message.content | upper }}" + _END)
    assert _found(upper) == []


def test_two_places_that_lose_what_one_place_printed_are_two_findings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = search_module._find
    hits: list[Any] = []
    origin = Location("printed-then", 1, 1, 1, 5)

    def twice(*asked: Any) -> Any:
        if not hits:
            scenario, kwargs, what = find(*asked)
            for line in (2, 3):
                places = (Location("printed-now", line, 1, line, 5), origin)
                seen = replace(what, blame=Blame(places, "so it is"))
                hits.append((scenario, kwargs, seen))
            hits.append(None)
            hits.reverse()
        return hits.pop()

    monkeypatch.setattr(search_module, "_find", twice)
    found = [each for each in report(BACKSLASH, SEARCHED).findings if each.conversation is not None]
    assert [each.line for each in found] == [2, 3]


def test_the_runs_of_a_search_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    replay = search_module.replay

    def counted(*args: Any) -> Any:
        made.append(args)
        return replay(*args)

    monkeypatch.setattr(search_module, "replay", counted)
    report(BACKSLASH, CheckOptions(max_examples=5, seed=3))
    assert 0 < len(made) <= 5 * search_module.TRIES * (search_module.FINDINGS + 1)


def test_the_same_seed_finds_the_same() -> None:
    again = report(BACKSLASH, SEARCHED)
    assert again.findings == _searched(BACKSLASH).findings


_SCRIPT = """
import json, sys
from templatefix.api import CheckOptions, SourceOptions, check_target
(report,) = check_target(sys.argv[1], SourceOptions(), CheckOptions(max_examples=20))
print(json.dumps([[f.code, f.line, f.conversation] for f in report.findings]))
"""


def _python(*args: str, cwd: Path, home: Path, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(home), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def _files(directory: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_another_process_finds_the_same_whatever_its_hash_seed(tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_text(BACKSLASH)
    printed = {
        _python("-c", _SCRIPT, str(path), cwd=tmp_path, home=tmp_path, PYTHONHASHSEED=seed)
        for seed in ("0", "77")
    }
    assert len(printed) == 1
    assert any(code == "TF104" and found for code, _, found in json.loads(printed.pop()))


@pytest.mark.parametrize("cache", [None, "elsewhere"])
def test_a_check_writes_nothing_but_its_own_cache(tmp_path: Path, cache: str | None) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (work / "t.jinja").write_text(BACKSLASH)
    before = _files(work)
    env = {"XDG_CACHE_HOME": str(tmp_path / cache)} if cache else {}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    shown = _python("-m", "templatefix", "check", "t.jinja", cwd=work, home=home, **env)
    assert "TF104" in shown
    assert _files(work) == before
    ours = (tmp_path / cache if cache else home / ".cache") / "templatefix"
    written = [path for path in tmp_path.rglob("*") if path.is_file() and work not in path.parents]
    assert all(ours in path.parents for path in written)


def test_what_the_server_s_parsers_would_not_find_is_no_counterexample() -> None:
    other = CheckOptions(max_examples=20, tool_call_parser="mistral")
    checked = report(TRIMS, other)
    assert not [f for f in checked.findings if f.code == "TF106" and f.scenario == "search"]


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("after", [0.3, 1.5])
def test_an_interrupt_ends_the_search_at_once(name: str, code: int, after: float) -> None:
    """Hypothesis would take it for a fault of what it draws, and go on."""
    template = str(EXAMPLE / "chat_template.jinja")
    process = subprocess.Popen(
        [sys.executable, "-m", "templatefix", "check", "--max-examples", "100000", template],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        first_child(process.pid)  # the one that does the work
        time.sleep(after)
        process.send_signal(getattr(signal, name))
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code
    assert b"Traceback" not in said
