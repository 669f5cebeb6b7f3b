"""Values cross the pipe as what they are, and nothing else does."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from templatefix.findings.outcome import Report
from templatefix.source import ChatTemplate, SourceOptions, TokenizerRef
from templatefix.worker.codec import plain, typed
from templatefix.worker.frames import Closed, Reader, send
from templatefix.worker.job import Job
from tests.report.samples import finding, report


def test_a_report_comes_back_as_it_was() -> None:
    given = report(findings=(finding(), finding(message="\ud800\x00")))
    assert typed(Report, json.loads(json.dumps(plain(given)))) == given


def test_a_template_comes_back_as_it_was() -> None:
    tokenizer = TokenizerRef("x", None, Path("/tokenizer.json"))
    given = ChatTemplate("x", "y", "z", tokenizer=tokenizer, files=frozenset({"b", "a"}))
    assert typed(ChatTemplate, json.loads(json.dumps(plain(given)))) == given


JOB = plain(Job("x"))
NAMES = [each.name for each in fields(Job)]


def changed(name: str, value: Any) -> list[Any]:
    return [value if each == name else given for each, given in zip(NAMES, JOB, strict=True)]


def test_a_job_comes_back_as_it_was() -> None:
    assert typed(Job, JOB) == Job("x")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [],
        "x",
        {"target": "x"},
        JOB[:-1],
        [*JOB, None],
        changed("target", 1),
        changed("alone", 1),
        changed("source", {"offline": "yes"}),
        changed("source", [["x"], *plain(SourceOptions())[1:]]),
        changed("options", []),
    ],
)
def test_what_has_not_the_declared_types_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        typed(Job, wrong)


def test_frames_of_every_length_and_their_end() -> None:
    reading, writing = os.pipe()
    reader = Reader(reading)
    for text in ("", "x" * 30_000, "\ud800"):
        send(writing, {"text": text})
        assert reader.receive() == {"text": text}
    os.close(writing)
    with pytest.raises(Closed):
        reader.receive()
    os.close(reading)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs poll")
def test_a_frame_that_is_not_there_is_not_waited_for() -> None:
    from templatefix.worker.forked import Replies

    reading, writing = os.pipe()
    replies = Replies(reading)
    assert replies.take() is None
    send(writing, {"text": "x"})
    assert replies.take() == {"text": "x"}
    assert replies.take() is None
    os.close(writing)
    with pytest.raises(Closed):
        replies.take()
    os.close(reading)
