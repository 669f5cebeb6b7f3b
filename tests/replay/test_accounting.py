"""What of a stream is reused: whole blocks of a common prefix, never a prompt's last token."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.prefix import common_prefix
from templatefix.replay.accounting import hit_tokens, ideal_tokens

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
