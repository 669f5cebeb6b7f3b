"""Raw tokens are listed as Jinja's lexer lists them, and what it refuses is left to it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateSyntaxError

from templatefix.syntax import normalise_newlines
from templatefix.syntax.lexing import RawTokens
from templatefix.syntax.listing import listing
from templatefix.syntax.template import parsing_environment
from tests.fuzz.mutants import broken, templates

_PARTS = (
    *("{{", "{{-", "{{+", "}}", "-}}", "{%", "{%-", "{%+", "%}", "-%}", "+%}", "{#", "{#-", "#}"),
    *("{% raw %}", "{%- raw -%}", "{% endraw %}", "{%- endraw -%}", "-#}", "+#}", "\n", "  ", "\t"),
    *("(", ")", "[", "]", "{", "}", "a", "é", "·", "1_000", "0x1f", "1.5e3", ".5", "..", "'s'"),
    *('"a\n\\"b"', "'", "//", "**", "!=", "=", "|", "~", "text\n", " text ", "$", "\x0b", "\u2028"),
)


def _refusal(source: str) -> str | None:
    """What Jinja's lexer says of a source in which it does not find its way."""
    try:
        list(parsing_environment().lexer.tokeniter(source, None))
    except TemplateSyntaxError as fault:
        return fault.message
    return None


def _listed_by_jinja(source: str) -> list[tuple[int, str, str]]:
    """The raw tokens, but for the whitespace between those of a tag."""
    found = parsing_environment().lexer.tokeniter(source, None)
    return [token for token in found if token[1] != "whitespace"]


def _check(text: str) -> None:
    environment = parsing_environment()
    source = normalise_newlines(text)
    refused = _refusal(source)
    if refused is not None:
        assert listing(environment.lexer, source) is None
        with pytest.raises(TemplateSyntaxError, match=re.escape(refused)):
            RawTokens(environment, source)
        return
    raw = RawTokens(environment, source)
    assert raw.tokens == _listed_by_jinja(source)
    for (_, _, value), start, end in zip(raw.tokens, raw.starts, raw.ends, strict=True):
        assert source.startswith(value, start)
        assert source[start:end] in (value, value.rstrip())


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(_PARTS), max_size=12).map("".join))
def test_any_text_has_the_raw_tokens_that_jinja_finds_in_it(text: str) -> None:
    _check(text)


@settings(max_examples=100, deadline=None)
@given(broken(templates()))
def test_a_broken_template_has_the_raw_tokens_that_jinja_finds_in_it(text: str) -> None:
    _check(text)


def test_a_good_template_is_listed_without_the_help_of_jinja() -> None:
    lexer = parsing_environment().lexer
    for text in templates():
        source = normalise_newlines(text)
        listed = listing(lexer, source)
        assert listed is not None
        assert listed[0] == _listed_by_jinja(source)


def test_a_bracket_that_is_closed_wrongly_is_refused_in_the_words_of_jinja() -> None:
    with pytest.raises(TemplateSyntaxError, match="unexpected '}', expected '\\)'"):
        RawTokens(parsing_environment(), "{{ (a } }}")
