"""Nothing that a terminal obeys gets through, and printable text stays as it is."""

from __future__ import annotations

import json
import sys
import textwrap
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from templatefix.report.visible import cells, head, json_safe, tail, visible, wrapped

ASSIGNED_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_no_control_format_or_surrogate_character_survives() -> None:
    # Signs of Arabic, Kaithi and Egyptian script are format characters that have a shape.
    shaped = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2}
    shaped |= {0x110BD, 0x110CD, *range(0x13430, 0x13440), *range(0x1BCA0, 0x1BCA4)}
    leaking = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ASSIGNED_UNSAFE
        and code not in shaped
        and chr(code) in visible(chr(code))
    ]
    assert leaking == []


@pytest.mark.parametrize("text", ["plain", "日本語", "<｜User｜>", "naïve → 🙂", "a\\n b"])
def test_printable_text_stays(text: str) -> None:
    assert visible(text) == text


def test_newlines_tabs_and_escapes_are_shown() -> None:
    assert visible("a\nb\tc\x1b[31m\u202e\ud800") == "a⏎b\\tc\\x1b[31m\\u202e\\ud800"


def test_json_made_safe_means_the_same() -> None:
    value = {"key\u202e": ["\x7f\u200b\U000e0041", "日本\n"]}
    document = json_safe(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(document) == value
    assert visible(document.replace("\n", "")) == document.replace("\n", "")


def test_cutting_counts_cells_and_not_characters() -> None:
    assert head("日本語日本語", 5) == "日本…"
    assert tail("日本語日本語", 5) == "…本語"
    assert head("short", 5) == tail("short", 5) == "short"
    assert cells("日本a\u0301") == 5


@given(
    st.text("ab- \u20ac\n\x1b", max_size=60),
    st.integers(10, 70),
    st.sampled_from(["", "   "]),
    st.sampled_from([None, " - "]),
)
def test_text_is_wrapped_as_the_standard_library_does_it(
    text: str, width: int, indent: str, first: str | None
) -> None:
    assert wrapped(text, width, indent, first) == textwrap.wrap(
        visible(text),
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


@given(st.text("ab\u0301\u6f22", max_size=12), st.integers(1, 12))
def test_the_head_fits_and_is_the_longest_that_does(text: str, limit: int) -> None:
    cut = head(text, limit)
    assert cells(cut) <= limit
    if cut != text:
        assert cells(text[: len(cut)]) > limit - 1  # the ellipsis stands in place of one more
