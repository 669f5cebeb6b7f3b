"""What Prometheus counters say, from the pages that vLLM and SGLang show."""

from __future__ import annotations

import pytest

from templatefix.serving.live.counters import Counters, Movement, counters_of, movement

VLLM = """\
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="a, \\"b\\" {c}"} 1000.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 24.0 1700000000
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.796e+09
vllm:prefix_cache_hits_total{engine="0"} 5.12e+02
vllm:external_prefix_cache_queries_total{engine="0"} 488.0
vllm:external_prefix_cache_hits_total{engine="0"} 64.0
vllm:request_prompt_tokens_bucket{le="+Inf"} 7
"""


def test_series_of_one_counter_add_up() -> None:
    assert counters_of(VLLM) == Counters(1024.0, 512.0, 64.0, None)


def test_counters_without_their_suffix_are_read_too() -> None:
    assert counters_of(VLLM.replace("_total", "")) == Counters(1024.0, 512.0, 64.0, None)


def test_sglang_counts_by_source() -> None:
    page = (
        'sglang:prompt_tokens_total{tp_rank="0"} 300\n'
        'sglang:cached_tokens_total{cache_source="device"} 200\n'
        'sglang:cached_tokens_total{cache_source="host"} 30\n'
        'sglang:cached_tokens_total{cache_source="storage"} 4\n'
    )
    assert counters_of(page) == Counters(300.0, 200.0, 34.0, None)


@pytest.mark.parametrize(
    ("labels", "size"),
    [
        ('block_size="32",cache_hit_alignment_tokens="None"', 32),
        ('block_size="16",cache_hit_alignment_tokens="528"', 528),
        ('page_size="1"', 1),
        ('block_size="0"', None),
        ('block_size="x"', None),
        ("", None),
    ],
)
def test_the_block_size_is_what_hits_are_multiples_of(labels: str, size: int | None) -> None:
    assert counters_of(f"vllm:cache_config_info{{{labels}}} 1.0\n").block_size == size


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html></html>",
        "vllm:prefix_cache_hits_total\n",
        "vllm:prefix_cache_hits_total{ 1\n",
        "vllm:prefix_cache_hits_total one\n",
        "vllm:prefix_cache_hits_total e-+.\n",
        'vllm:prefix_cache_hits_total{a="b} 1.0\n' * 3,
    ],
)
def test_what_is_no_counter_is_passed_over(page: str) -> None:
    assert not counters_of(page).present


def test_a_counter_that_cannot_be_believed_shows_nothing() -> None:
    good = Counters(10.0, 5.0, None, None)
    assert movement(good, Counters(30.0, 9.0, None, None)) == Movement(20, 4, None)
    assert movement(good, Counters(30.0, 9.0, 3.0, None)) == Movement(20, 4, 3)
    assert movement(good, Counters(3.0, 9.0, None, None)) is None, "the server was started anew"
    assert movement(good, Counters(None, 9.0, None, None)) is None
    for odd in (float("nan"), float("inf")):
        assert movement(good, Counters(30.0, odd, None, None)) == Movement(20, 0, None)
