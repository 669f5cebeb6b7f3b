"""Records are measured: a ready template that does not keep the contract gets none."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from templatefix.checking.options import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import prepare
from templatefix.cli.program import templatefix
from templatefix.errors import TargetError
from templatefix.patching.bench import Bench
from templatefix.ready import shelf
from templatefix.ready.measure import against_patch
from templatefix.ready.record import record_from
from tests.hostile.templates import DEAF
from tests.subjects import APPENDS, branches, template

HEADER = """\
{#-
  serves: org/One
  reference: org/One
  templatefix-policy: keep-reasoning
  change: outer spaces stay.
-#}
"""
TRIMS = branches(
    "{{- '<|im_start|>assistant\\n' + (message.content or '').strip() + '<|im_end|>\\n' }}"
)
#: What renders the same without a history, and appends.
READY = APPENDS.replace("message.content", "(message.content or '')")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shelved = tmp_path / "shelf"
    shelved.mkdir()
    monkeypatch.setattr(shelf, "directory", lambda: shelved)
    (tmp_path / "published.jinja").write_text(TRIMS, encoding="utf-8")
    return shelved


def record(folder: Path, text: str, *words: str) -> tuple[int, str]:
    (folder / "one.jinja").write_text(text, encoding="utf-8")
    reference = f"org/One={folder.parent / 'published.jinja'}"
    ended = CliRunner().invoke(
        templatefix,
        ["ready", "record", "one", "--reference", reference, "--max-examples", "5", *words],
    )
    return ended.exit_code, ended.stderr


def test_a_record_holds_what_was_measured(folder: Path) -> None:
    code, said = record(folder, HEADER + READY)
    assert (code, said.splitlines()[-1]) == (0, f"wrote {folder / 'one.json'}")
    (reference,) = record_from((folder / "one.json").read_text(encoding="utf-8"), "one").references
    assert set(reference.clauses) == {"C1", "C2", "C3", "C4", "C5", "C6", "C7"}
    assert all(tried > 0 for tried in reference.clauses.values())
    assert reference.patch.rung == 3
    assert reference.patch.prompts > 0
    assert reference.patch.different == 0
    chat = next(chat for chat in reference.reuse if chat.scenario == "plain-chat")
    assert [turn.turn for turn in chat.turns] == [2, 3, 4]
    assert all(turn.cached[1] == turn.ideal[1] for turn in chat.turns)


def test_a_record_that_is_measured_again_is_the_same_to_the_byte(folder: Path) -> None:
    record(folder, HEADER + READY)
    assert record(folder, HEADER + READY, "--check") == (
        0,
        f"{folder / 'one.json'} is up to date\n",
    )


def test_a_template_that_was_changed_makes_its_record_stale(folder: Path) -> None:
    record(folder, HEADER + READY)
    before = (folder / "one.json").read_bytes()
    code, said = record(folder, HEADER.replace("outer", "all") + READY, "--check")
    assert code == 1
    assert "is stale" in said
    assert (folder / "one.json").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        (READY.replace("<|im_end|>", "<|end|>"), "C1"),
        (TRIMS, "C2"),
        (READY.replace("message.role +", "message.role|upper +"), "C1"),
        (APPENDS, "C4"),
    ],
)
def test_a_template_that_breaks_the_contract_gets_no_record(
    folder: Path, text: str, clause: str
) -> None:
    code, said = record(folder, HEADER + text)
    assert code == 2
    assert f"breaks {clause} against org/One" in said
    assert not (folder / "one.json").exists()


@pytest.mark.parametrize(
    ("addition", "said"),
    [
        (
            "{%- for message in messages %}{% for part in message.content %}{% endfor %}",
            "openai form",
        ),
        (
            "{%- for message in messages %}{% if message.role == 'developer' %}{% endif %}",
            "the role developer",
        ),
    ],
)
def test_a_template_that_makes_vllm_send_other_messages_gets_no_record(
    folder: Path, addition: str, said: str
) -> None:
    code, error = record(folder, HEADER + addition + "{% endfor %}" + READY)
    assert code == 2
    assert said in error
    assert not (folder / "one.json").exists()


def test_a_difference_from_the_patch_has_to_be_explained(folder: Path) -> None:
    """The contract would refuse this one before; the comparison does not rely on it."""
    louder = READY.replace("'<|im_end|>\\n' }}", "'!<|im_end|>\\n' }}")
    (folder / "one.jinja").write_text(HEADER + louder, encoding="utf-8")
    ready = shelf.take("one")
    subject = prepare(template(TRIMS), CheckOptions())
    modes = modes_of(subject, CheckOptions())
    bench = Bench(subject, modes, "keep-reasoning", 16)
    with pytest.raises(TargetError, match="unlike the patch"):
        against_patch(ready, ready.header, subject, bench)
    explained = replace(ready.header, differs=("it is louder.",))
    patch = against_patch(ready, explained, subject, bench)
    assert patch.rung == 3
    assert patch.different == patch.prompts > 0
    assert patch.example is not None
    assert "'!<|im_end|>" in patch.example


def test_a_reference_that_the_header_does_not_name_is_refused(folder: Path) -> None:
    code, said = record(folder, HEADER + READY, "--reference", "org/Two=x.jinja")
    assert code == 2
    assert "the header names no such reference" in said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_published_template_that_takes_too_much_is_no_reference(folder: Path) -> None:
    (folder.parent / "published.jinja").write_text(DEAF["a comparison"], encoding="utf-8")
    code, said = record(folder, HEADER + READY, "--time-limit", "0.3")
    assert code == 1
    assert "rendering takes more than 0.3 s" in said.splitlines()[-1]
    assert not (folder / "one.json").exists()
