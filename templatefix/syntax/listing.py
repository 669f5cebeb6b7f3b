"""Lists the raw tokens of a source as Jinja's lexer does, with one search for each of them.

Jinja tries one rule after the other at every token of a tag. The rules are its own here, too: those
of a tag are put together, so that one search tells which of them applies. The whitespace between
tokens, which Jinja lists as well and then drops, is passed over. Wherever a source is not regular
nothing is listed, and Jinja has to say what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from jinja2.lexer import Lexer, whitespace_re

#: A raw token: its line, its kind and its text.
RawToken = tuple[int, str, str]

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def listing(lexer: Lexer, source: str) -> tuple[list[RawToken], list[int], list[int]] | None:
    """The raw tokens of a newline-normalised source, where they begin, and where they end without
    the whitespace that the end of a tag takes away; None: see above.

    ``lexer`` strips blocks on the left, and has no line statements or line comments.
    """
    listed = _Listing(lexer, source)
    return (listed.tokens, listed.starts, listed.ends) if listed.is_regular else None


def end_of(kind: str, value: str, start: int) -> int:
    """Where a token ends: that of a tag swallows what its dash or trim_blocks removes."""
    return start + len(value.rstrip() if kind.endswith("_end") else value)


class _Listing:
    def __init__(self, lexer: Lexer, source: str) -> None:
        self._lexer = lexer
        self._source = source if lexer.keep_trailing_newline else source.removesuffix("\n")
        self.tokens: list[RawToken] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._at = 0
        self._line = 1
        self._line_starting = True
        self.is_regular = self._list()

    def _list(self) -> bool:
        source = self._source
        begin = self._lexer.rules["root"][0].pattern
        while self._at < len(source):
            found = begin.match(source, self._at)
            if found is None:
                self._add("data", source[self._at :], self._at)
                return True
            kind, number = found.lastgroup or "", found.lastindex or 0
            self._text(found[1], found[number + 1], stripped=kind != "variable_begin")
            self._add(kind, found[kind], found.start(kind))
            self._move_to(found)
            if kind.startswith(("block", "variable")):
                regular = self._tag(kind)
            elif kind == "comment_begin":
                regular = self._comment()
            else:
                regular = kind == "raw_begin" and self._raw()
            if not regular:
                return False
        return True

    def _add(self, kind: str, value: str, start: int) -> None:
        self.tokens.append((self._line, kind, value))
        self.starts.append(start)
        self.ends.append(end_of(kind, value, start))
        self._line += value.count("\n")

    def _move_to(self, found: re.Match[str]) -> None:
        """Go on behind what was found."""
        self._at = found.end()
        self._line_starting = found[0][-1:] == "\n"

    def _text(self, text: str, sign: str, *, stripped: bool) -> None:
        """The text before a tag, without the whitespace that the tag takes away."""
        lines = 0
        kept = text
        if sign == "-":
            kept = text.rstrip()
            lines = text.count("\n", len(kept))
        elif sign != "+" and stripped and self._lexer.lstrip_blocks:
            begins = text.rfind("\n") + 1
            if (begins > 0 or self._line_starting) and whitespace_re.fullmatch(text, begins):
                kept = text[:begins]
        if kept:
            self._add("data", kept, self._at)
        self._line += lines

    def _comment(self) -> bool:
        found = self._lexer.rules["comment_begin"][0].pattern.match(self._source, self._at)
        if found is None:
            return False
        if found[1]:
            self._add("comment", found[1], self._at)
        self._add("comment_end", found[2], found.start(2))
        self._move_to(found)
        return True

    def _raw(self) -> bool:
        found = self._lexer.rules["raw_begin"][0].pattern.match(self._source, self._at)
        if found is None:
            return False
        self._text(found[1], found[3], stripped=True)
        self._add("raw_end", found[2], found.start(2))
        self._move_to(found)
        return True

    def _tag(self, begin: str) -> bool:
        """The tokens of a tag and its end; a source may end within."""
        source, tokens, starts, ends = self._source, self.tokens, self.starts, self.ends
        rules = _rules(self._lexer, begin)
        kinds = rules.kinds
        at, line, end = self._at, self._line, begin.replace("begin", "end")
        open_: list[str] = []
        while True:
            # Within brackets what looks like the end of the tag is operators.
            found = (rules.inner if open_ else rules.whole).match(source, at)
            if found is None:
                self._at = len(source)
                return at >= len(source) or whitespace_re.fullmatch(source, at) is not None
            group = found.lastindex or 0
            kind, value = kinds[group], found[group]
            if kind == "operator":
                if value in _PAIRS:
                    open_.append(_PAIRS[value])
                elif value in ")]}" and (not open_ or open_.pop() != value):
                    return False
            begun, at = at, found.end()
            lines = source.count("\n", begun, at)
            if lines:  # in the whitespace before it, or in itself
                line += lines
                tokens.append((line - value.count("\n"), kind, value))
            else:
                tokens.append((line, kind, value))
            starts.append(at - len(value))
            ends.append(at)
            if kind == end:
                ends[-1] = end_of(kind, value, starts[-1])
                self._line = line
                self._move_to(found)
                return True


class _Rules(NamedTuple):
    """What matches any token of a tag with the whitespace before it, and any but the tag's end.

    ``kinds`` are those of tokens, by the number of the group that holds them.
    """

    whole: re.Pattern[str]
    inner: re.Pattern[str]
    kinds: dict[int, str]


@lru_cache(maxsize=8)
def _rules(lexer: Lexer, begin: str) -> _Rules:
    patterns = {}
    for rule in lexer.rules[begin]:
        flags = "".join(sign for sign, flag in _FLAGS.items() if rule.pattern.flags & flag)
        pattern = f"(?{flags}:{rule.pattern.pattern})" if flags else rule.pattern.pattern
        patterns[str(rule.tokens)] = pattern
    del patterns["whitespace"]
    # Most tokens are names, and nothing else begins with a letter.
    patterns = {"word": rf"(?=[^\W\d]){patterns['name']}", **patterns}
    end = begin.replace("begin", "end")
    whole = _any_of(patterns)
    inner = _any_of({**patterns, end: "(?!)"})  # the same groups, of which one finds nothing
    kinds = {number: kind for kind, number in whole.groupindex.items()}
    kinds[whole.groupindex["word"]] = "name"
    return _Rules(whole, inner, kinds)


def _any_of(patterns: Mapping[str, str]) -> re.Pattern[str]:
    """What matches the first of the patterns that fits, with whitespace before it."""
    parts = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in patterns.items())
    return re.compile(rf"\s*+(?:{parts})")
