"""Ids back to text, and the seam between a prompt and a completion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from templatefix.tokens import completion_ids, load_encoder
from templatefix.tokens.segments import SegmentEncoder

from . import small

SHIPPED = load_encoder(None)


@given(st.text())
@settings(deadline=None)
def test_decoding_undoes_encoding(text: str) -> None:
    assert SHIPPED.decode(SHIPPED.encode(text)) == text


def test_tokens_are_shown_as_text() -> None:
    words = SegmentEncoder(small.byte_level(), "test")
    ids = words.encode("hello world<think>")
    assert len(ids) > 2
    assert "".join(map(words.token_text, ids)) == "hello world<think>"
    assert words.token_text(ids[-1]) == "<think>"
    pieces = SegmentEncoder(small.sentencepiece(), "test")
    assert "".join(map(pieces.token_text, pieces.encode("hello world<s>"))) == " hello world<s>"
    assert pieces.decode(pieces.encode("hello world<s>")) == " hello world<s>"


def test_part_of_a_character_is_shown_as_a_replacement() -> None:
    ids = SHIPPED.encode("😀")
    assert len(ids) > 1
    assert "\ufffd" in SHIPPED.token_text(ids[0])
    assert SHIPPED.decode(ids) == "😀"


@pytest.mark.parametrize("token_id", [-1, 10**6, 2**40])
def test_an_unknown_id_has_no_text(token_id: int) -> None:
    assert SHIPPED.token_text(token_id) == ""


def test_special_tokens_are_found_by_their_text() -> None:
    end = SHIPPED.token_id("<|im_end|>")
    assert end is not None
    assert SHIPPED.encode("<|im_end|>") == [end]
    assert SHIPPED.token_id("<|nothing|>") is None
    assert {"<think>", "<|im_end|>"} <= SHIPPED.special_tokens()


@pytest.mark.parametrize("kind", small.KINDS)
@pytest.mark.parametrize("completion", ["hello world", " hello", "<think>\nx", "</s>", "\n\nIt's"])
def test_a_completion_continues_its_prompt(kind: Callable[[], Tokenizer], completion: str) -> None:
    encoder = SegmentEncoder(kind(), "test")
    prompt = "<s>user what is 42?"
    prompt_ids = encoder.encode(prompt)
    joint = encoder.encode(prompt + completion)
    assert joint[: len(prompt_ids)] == prompt_ids
    ids = completion_ids(encoder, prompt, prompt_ids, completion)
    assert prompt_ids + ids == joint


def test_an_empty_completion_has_no_tokens() -> None:
    assert completion_ids(SHIPPED, "hello", SHIPPED.encode("hello"), "") == []


@pytest.mark.parametrize(
    "kind", [small.metaspace_first, small.metaspace_always, small.sentencepiece]
)
def test_no_dummy_space_where_a_token_straddles_the_seam(kind: Callable[[], Tokenizer]) -> None:
    encoder = SegmentEncoder(kind(), "test")
    prompt = "the wor"
    prompt_ids = encoder.encode(prompt)
    assert encoder.encode(prompt + "ld")[: len(prompt_ids)] != prompt_ids
    ids = completion_ids(encoder, prompt, prompt_ids, "ld hello")
    assert encoder.decode(ids) == "ld hello"
    assert encoder.decode(encoder.encode("ld hello")) == " ld hello"


def test_a_completion_that_straddles_the_seam_is_encoded_by_itself() -> None:
    encoder = SegmentEncoder(small.byte_level(), "test")
    prompt = "hello\n"
    prompt_ids = encoder.encode(prompt)
    assert encoder.encode(prompt + "\nworld")[: len(prompt_ids)] != prompt_ids
    ids = completion_ids(encoder, prompt, prompt_ids, "\nworld")
    assert ids == encoder.encode("\nworld")
