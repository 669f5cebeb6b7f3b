"""Encoding by segments is encoding, only cheaper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from templatefix.errors import TargetError
from templatefix.source.template import TokenizerRef
from templatefix.tokens import load_encoder
from templatefix.tokens.fallback import shipped_tokenizer
from templatefix.tokens.segments import SegmentEncoder
from tests.corpus import corpus_directory

from . import small

CORPUS = corpus_directory()
REAL = sorted((CORPUS / "tokenizers").iterdir()) if CORPUS else []
WORDS = (
    *("Hello", " world", "user\n", "no", "yes", "_", "42", "don't", " a", "x", '{"a": 1}', "中文"),
    *("\n", "\n\n", " ", "  ", "\t", "\r\n", "\u3000", "\x1c", "é", "e\u0301", "ﬁ", "😀", "\u200d"),
    *("<", ">", "<|", "|>", "<th", "think", "s>", "[INST", "▁", "\ud800"),
)


def edits(literals: Sequence[str]) -> st.SearchStrategy[list[tuple[int, str]]]:
    """A text's life: how much of it is kept, and what is appended, a few times over."""
    piece = st.sampled_from(WORDS) | st.sampled_from(literals) | st.text(max_size=4)
    return st.lists(
        st.tuples(st.integers(0, 80), st.lists(piece, max_size=9).map("".join)),
        min_size=1,
        max_size=5,
    )


def assert_same_ids(encoder: SegmentEncoder, whole: Tokenizer, life: list[tuple[int, str]]) -> None:
    text = ""
    for kept, appended in life:
        text = text[: len(text) - kept if kept < 20 else kept] + appended
        sound = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert encoder.encode(text) == whole.encode(sound, add_special_tokens=False).ids, text


@cache
def encoder_and_tokenizer(kind: Callable[[], Tokenizer]) -> tuple[SegmentEncoder, Tokenizer]:
    whole = kind()
    whole.no_truncation()
    whole.no_padding()
    return SegmentEncoder(kind(), kind.__name__), whole


@pytest.mark.parametrize("kind", small.KINDS)
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_segments_encode_as_the_whole_text(
    kind: Callable[[], Tokenizer], data: st.DataObject
) -> None:
    encoder, whole = encoder_and_tokenizer(kind)
    literals = sorted(encoder.special_tokens())
    assert_same_ids(encoder, whole, data.draw(edits(literals)))


@cache
def real_encoder(directory: Path) -> tuple[SegmentEncoder, Tokenizer]:
    path = directory / "tokenizer.json"
    encoder = load_encoder(TokenizerRef(directory.name, directory, path))
    assert isinstance(encoder, SegmentEncoder)
    return encoder, encoder._tokenizer


def _sorted_evenly(texts: frozenset[str], most: int) -> list[str]:
    ordered = sorted(texts)
    return ordered[:: max(1, len(ordered) // most)]


@pytest.mark.corpus
@pytest.mark.parametrize(
    "directory",
    [pytest.param(path, id=path.name) for path in REAL]
    or [pytest.param(None, marks=pytest.mark.skip("the corpus is absent"))],
)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_segments_of_real_tokenizers_encode_as_the_whole_text(
    directory: Path, data: st.DataObject
) -> None:
    encoder, whole = real_encoder(directory)
    literals = _sorted_evenly(encoder.special_tokens(), 40)
    assert_same_ids(encoder, whole, data.draw(edits(literals)))


def conversation(turns: int) -> list[str]:
    """The prompts of a chat in which every turn says something new."""
    text, prompts = "<|im_start|>system\nBe brief.<|im_end|>\n", []
    for turn in range(turns):
        text += f"<|im_start|>user\nQuestion {turn}: what comes after {turn}?<|im_end|>\n"
        prompts.append(text + "<|im_start|>assistant\n")
        text = prompts[-1] + f"<think>\nWell, {turn}.\n</think>\n\nIt is {turn + 1}.<|im_end|>\n"
    return prompts


@pytest.mark.parametrize("tokenizer", [small.byte_level, None], ids=["byte_level", "shipped"])
def test_characters_given_to_the_tokenizer_are_linear_in_turns(
    tokenizer: Callable[[], Tokenizer] | None,
) -> None:
    def characters(turns: int) -> int:
        loaded = tokenizer() if tokenizer else Tokenizer.from_file(str(shipped_tokenizer()))
        encoder = SegmentEncoder(loaded, "test")
        for prompt in conversation(turns):
            encoder.encode(prompt)
        return encoder.characters_encoded

    assert 0 < characters(400) <= 2.3 * characters(200)


def test_a_new_turn_costs_its_own_characters_only() -> None:
    encoder = SegmentEncoder(small.byte_level(), "test")
    prompt, extended = conversation(50)[-1], conversation(51)[-1]
    encoder.encode(prompt)
    before = encoder.characters_encoded
    encoder.encode(extended)
    assert encoder.characters_encoded - before <= len(extended) - len(prompt)


SEGMENTED = [kind for kind in small.KINDS if kind is not small.stripping_beside_space_tokens]


@pytest.mark.parametrize("kind", SEGMENTED)
def test_text_before_a_special_token_is_paid_for_once(kind: Callable[[], Tokenizer]) -> None:
    encoder, _ = encoder_and_tokenizer(kind)
    # What lies between tokens of the second pass is the tokenizer's own business.
    marks = [added.text for added in encoder._added.values() if not added.single_word]
    marks = [text for text in marks if kind is not small.normalized or text != "<Think>"]
    for mark in marks:
        head = f"a long beginning with {mark}" * 10
        encoder.encode(head)
        before = encoder.characters_encoded
        encoder.encode(head + "and an end")
        assert encoder.characters_encoded - before <= len("and an end") + len(max(marks, key=len))


def test_text_before_a_special_token_is_searched_for_special_tokens_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = SegmentEncoder(small.byte_level(), "test")
    assert encoder._splitter is not None
    in_turns, starts = encoder._splitter.in_turns, []

    def recorded(text: str, start: int) -> list[str] | None:
        starts.append(start)
        return in_turns(text, start)

    monkeypatch.setattr(encoder._splitter, "in_turns", recorded)
    prompt, extended = conversation(50)[-1], conversation(51)[-1]
    encoder.encode(prompt)
    encoder.encode("another conversation")
    encoder.encode(extended)
    assert starts[0] == 0
    assert starts[2] > len(prompt) - 40


@pytest.mark.parametrize("space", ["\x1c", "\x85", "\u3000", "\u200b", "\ufeff"])
def test_white_space_is_what_the_library_takes_for_it(space: str) -> None:
    encoder, whole = encoder_and_tokenizer(small.stripping)
    text = f"a{space}<mask>{space}b<|end|>{space}c"
    assert encoder.encode(text) == whole.encode(text).ids


def test_a_text_is_not_encoded_twice() -> None:
    encoder = SegmentEncoder(small.sentencepiece(), "test")
    first = encoder.encode("<s>one two</s>")
    before = encoder.characters_encoded
    assert encoder.encode("<s>one two</s>") == first
    assert encoder.characters_encoded == before


def test_callers_may_change_the_ids_they_get() -> None:
    encoder = SegmentEncoder(small.byte_level(), "test")
    for text in ("<think>hello", "hello"):
        ids = encoder.encode(text)
        encoder.encode(text).clear()
        encoder.encode(text).append(0)
        assert encoder.encode(text) == ids


@pytest.mark.parametrize("kind", small.KINDS)
def test_lone_surrogates_count_as_replacement_characters(kind: Callable[[], Tokenizer]) -> None:
    encoder, _ = encoder_and_tokenizer(kind)
    assert encoder.encode("a\ud83d b\udc00") == encoder.encode("a\ufffd b\ufffd")


class PanicException(BaseException):
    """The name under which panics in Rust arrive; the class itself cannot be imported."""


class _Panicking:
    """A tokenizer that encodes until it meets a bad word."""

    def __init__(self, bad: BaseException) -> None:
        self._tokenizer, self._bad = small.byte_level(), bad

    def __getattr__(self, name: str) -> object:
        return getattr(self._tokenizer, name)

    def encode(self, text: str, add_special_tokens: bool) -> object:
        if "bad" in text:
            raise self._bad
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)


@pytest.mark.parametrize("error", [PanicException("regex"), Exception("unk"), OverflowError()])
def test_a_failing_tokenizer_is_a_bad_target(error: BaseException) -> None:
    encoder = SegmentEncoder(_Panicking(error), "dir/")  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="dir/: the tokenizer failed"):
        encoder.encode("a bad word")


def test_an_interrupt_is_no_failure_of_the_tokenizer() -> None:
    encoder = SegmentEncoder(_Panicking(KeyboardInterrupt()), "dir/")  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        encoder.encode("a bad word")
