"""Both sides of a divergence, token by token."""

from __future__ import annotations

import pytest

from templatefix.chat.battery import BATTERY
from templatefix.findings.finding import Streams, Token
from templatefix.findings.streams import streams_of
from templatefix.replay.run import Comparison, Plan, replay
from tests.subjects import branches, subject

_BLOCK = "<think>\n\n</think>\n\n"
#: Writes an empty block before every answer, and leaves it out of history.
_DROPS = branches(
    "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}",
    "{{- '<think>\\n\\n</think>\\n\\n' }}",
)


@pytest.fixture(scope="module")
def shown() -> tuple[Comparison, Streams]:
    made = subject(_DROPS)
    run = replay(Plan(BATTERY[0], {}), made.author, made.encoder, 16)
    comparison = run.comparisons[-1]
    return comparison, streams_of(comparison, made.encoder)


def _texts(tokens: list[Token]) -> str:
    return "".join(token.text for token in tokens)


def test_the_pairs_hold_both_sides_to_the_end_of_the_history(
    shown: tuple[Comparison, Streams],
) -> None:
    comparison, streams = shown
    ours = [one for one, _ in streams.pairs if one is not None]
    theirs = [other for _, other in streams.pairs if other is not None]
    stream, prompt = comparison.before.stream_ids, comparison.after.prompt_ids
    reuse = comparison.reuse
    assert [token.id for token in ours] == stream[reuse:]
    assert [token.id for token in theirs] == prompt[reuse : reuse + len(theirs)]
    assert [token.id for token in streams.common] == stream[streams.skipped : reuse]
    assert _texts(ours).startswith(_BLOCK)
    assert _texts(theirs) == _texts(ours).removeprefix(_BLOCK)


def test_what_follows_the_history_is_new(shown: tuple[Comparison, Streams]) -> None:
    comparison, streams = shown
    assert _texts(list(streams.new)).startswith("\n<|im_start|>user\n")
    ours, theirs = streams.left_out
    assert ours == 0
    kept = sum(other is not None for _, other in streams.pairs) + len(streams.new)
    assert comparison.reuse + kept + theirs == len(comparison.after.prompt_ids)


def test_only_added_tokens_are_special(shown: tuple[Comparison, Streams]) -> None:
    _, streams = shown
    special = {token.text for pair in streams.pairs for token in pair if token and token.special}
    assert special == {"<think>", "</think>", "<|im_end|>"}


def test_a_pair_of_equal_tokens_is_one_that_moved(shown: tuple[Comparison, Streams]) -> None:
    _, streams = shown
    assert all(one.id == other.id for one, other in streams.pairs if one and other)
    lone = _texts([one for one, other in streams.pairs if one and other is None])
    assert lone == _BLOCK


def test_a_character_of_several_tokens_is_the_first_ones() -> None:
    made = subject(_DROPS)
    run = replay(Plan(BATTERY[0], {}), made.author, made.encoder, 16)
    comparison = run.comparisons[0]
    ids = made.encoder.encode("à 漢字!")
    after = comparison.after._replace(prompt_ids=[*comparison.before.stream_ids[:-3], *ids])
    reuse = len(after.prompt_ids) - len(ids)
    changed = comparison._replace(after=after, reuse=reuse)
    streams = streams_of(changed, made.encoder)
    shown = [*(other for _, other in streams.pairs if other), *streams.new]
    assert [token.id for token in shown] == ids
    assert "".join(token.text for token in shown) == "à 漢字!"
    assert any(not token.text for token in shown)
