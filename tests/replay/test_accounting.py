"""What of a stream is reused: whole blocks of a common prefix, never a prompt's last token."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.prefix import common_prefix
from templatefix.replay.accounting import (
    history_tokens,
    hit_tokens,
    ideal_tokens,
    recomputed_tokens,
)

quick = settings(max_examples=150, deadline=None, derandomize=True, database=None)

_lengths = st.integers(0, 200)
_blocks = st.sampled_from([1, 2, 16, 32, 256])
_ids = st.lists(st.integers(0, 1), max_size=12)


@quick
@given(_lengths, _lengths, _lengths, _blocks)
def test_a_hit_is_whole_blocks_of_what_is_cached_and_asked_for(
    reuse: int, stream: int, prompt: int, block: int
) -> None:
    hit = hit_tokens(reuse, stream, prompt, block)
    assert hit % block == 0
    assert 0 <= hit <= max(0, min(reuse, stream - 1, prompt - 1))
    assert hit + block > min(reuse, stream - 1, prompt - 1)


@quick
@given(_lengths, _lengths, _lengths, _blocks)
def test_the_ideal_is_the_hit_of_a_whole_stream_and_no_hit_exceeds_it(
    reuse: int, stream: int, prompt: int, block: int
) -> None:
    ideal = ideal_tokens(stream, prompt, block)
    assert ideal == hit_tokens(stream, stream, prompt, block)
    assert hit_tokens(min(reuse, stream), stream, prompt, block) <= ideal


def test_the_last_token_of_a_prompt_and_of_a_stream_are_never_hits() -> None:
    assert hit_tokens(32, 32, 100, 16) == 16
    assert hit_tokens(33, 33, 33, 16) == 32
    assert hit_tokens(32, 100, 32, 16) == 16
    assert hit_tokens(32, 100, 33, 16) == 32
    assert hit_tokens(0, 0, 0, 16) == 0


def _naive(a: Sequence[object], b: Sequence[object]) -> int:
    count = 0
    for ours, theirs in zip(a, b, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


@quick
@given(_ids, _ids, _ids)
def test_the_common_prefix_is_what_a_loop_finds(
    head: list[int], a: list[int], b: list[int]
) -> None:
    assert common_prefix(head + a, head + b) == _naive(head + a, head + b)
    left, right = "".join(map(str, head + a)), "".join(map(str, head + b))
    assert common_prefix(left, right) == _naive(left, right)
    assert common_prefix(head, head + b) == len(head)


_answer = st.lists(st.integers(10, 15), min_size=1, max_size=8)
_new = st.lists(st.integers(20, 25), max_size=8)


@quick
@given(st.lists(st.integers(0, 5), max_size=8), _answer, _answer, _new, st.booleans())
def test_what_is_new_begins_where_the_answer_ends(
    asked: list[int], lost: list[int], answer: list[int], new: list[int], stopped: bool
) -> None:
    """The stop token is 30, and 40 begins what was generated and is gone."""
    stream = [*asked, 40, *lost, *answer, 30]
    prompt = [*asked, *answer, *([30] if stopped else []), *new]
    history = history_tokens(stream, prompt, common_prefix(stream, prompt))
    assert prompt[history:] == new


@quick
@given(_ids, _ids)
def test_history_is_no_less_than_what_is_reused_and_no_more_than_the_prompt(
    stream: list[int], prompt: list[int]
) -> None:
    reuse = common_prefix(stream, prompt)
    assert reuse <= history_tokens(stream, prompt, reuse) <= len(prompt)


@quick
@given(_ids, _ids, _blocks)
def test_a_prompt_that_continues_the_stream_computes_nothing_again(
    stream: list[int], new: list[int], block: int
) -> None:
    prompt = stream + new
    history = history_tokens(stream, prompt, len(stream))
    hit = hit_tokens(len(stream), len(stream), len(prompt), block)
    assert history == len(stream)
    assert recomputed_tokens(history, hit, len(stream), len(prompt), block) == 0


def test_what_is_computed_again_is_the_history_after_the_hit_in_whole_blocks() -> None:
    """A stream of 72 tokens of which 35 are reused; the prompt of 75 has 54 of history."""
    assert recomputed_tokens(54, 32, 72, 75, 16) == 16
    assert recomputed_tokens(54, 35, 72, 75, 1) == 19
    assert recomputed_tokens(90, 32, 72, 95, 16) == 32  # no more than the stream holds
