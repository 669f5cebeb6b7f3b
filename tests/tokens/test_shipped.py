"""The shipped tokenizer with a template's tokens encodes as if they had been added to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from templatefix.tokens import load_encoder
from templatefix.tokens.fallback import shipped_tokenizer, special_token_shapes

#: New ones, known ones, and some that begin alike.
_SHAPES = ("<|turn|>", "<|turn", "<s>", "</s>", "<think>", "</think>", "[INST]", "[/INST]", "<a>")
_TEXTS = st.lists(
    st.sampled_from((*_SHAPES, "<|im_start|>", " ", "\n", "<", "<|", "user", "[", "é\u0301"))
    | st.text()
).map("".join)


def with_tokens_added(literals: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(shipped_tokenizer()))
    shapes = [AddedToken(shape, normalized=False) for shape in special_token_shapes(literals)]
    tokenizer.add_special_tokens(shapes)
    return tokenizer


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(_SHAPES)), st.lists(_TEXTS, min_size=1, max_size=3))
def test_a_templates_tokens_are_encoded_as_if_they_had_been_added(
    literals: list[str], texts: list[str]
) -> None:
    ours, theirs = load_encoder(None, literals), with_tokens_added(literals)
    added = {token.content for token in theirs.get_added_tokens_decoder().values()}
    assert ours.special_tokens() == added
    for text in added:
        assert ours.token_id(text) == theirs.token_to_id(text)
    for text in (*texts, *accumulate(texts)):  # the latter go on where the last one ended
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids


def test_a_text_may_end_in_what_becomes_part_of_another_token() -> None:
    literals = ["<s>", "[|<s>|]"]
    ours, theirs = load_encoder(None, literals), with_tokens_added(literals)
    assert ours.special_tokens() >= set(literals)
    for text in accumulate(("Hi<s> there[|<s>", "|]user", "<s>", "[|<", "s>|]")):
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="ab1.é\u0301 \t\n\r\x0b\x85\u2028\u3000", max_size=30))
def test_lines_are_encoded_as_the_whole_text(text: str) -> None:
    whole = _tokenizer().encode(text, add_special_tokens=False)
    assert load_encoder(None, []).encode(text) == whole.ids


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(shipped_tokenizer()))


def test_a_line_is_paid_for_once() -> None:
    lines = ["Eleven trains cross the bridge.\r\n", "Nine of them stop there.\n\n"]
    encoder = load_encoder(None, ["<|turn|>"])
    encoder.encode("".join(lines))
    before = encoder.characters_encoded
    encoder.encode("<|turn|>" + lines[1] + lines[0] + lines[1])
    assert encoder.characters_encoded == before


def test_one_templates_tokens_are_not_anothers() -> None:
    assert len(load_encoder(None, ["<|turn|>"]).encode("<|turn|>")) == 1
    assert len(load_encoder(None, []).encode("<|turn|>")) > 1


def test_the_second_template_finds_the_segments_of_the_first() -> None:
    text = "Seventeen ferries leave the mouth of the Douro every morning."
    load_encoder(None, ["<|turn|>"]).encode(f"<|turn|>{text}")
    second = load_encoder(None, ["<s>"])
    second.encode(f"<s>{text}")
    assert second.characters_encoded == 0
