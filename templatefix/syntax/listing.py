"""Lists the raw tokens of a source as Jinja's lexer does, with one search for each of them.

Jinja tries one rule after the other at every token of a tag. The rules are its own here, too: those
of a tag are put together, so that one search tells which of them applies. Wherever a source is not
regular nothing is listed, and Jinja has to say what is wrong with it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from jinja2.lexer import Lexer, whitespace_re

#: A raw token: its line, its kind and its text.
RawToken = tuple[int, str, str]

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def listing(lexer: Lexer, source: str) -> tuple[list[RawToken], list[int]] | None:
    """The raw tokens of a newline-normalised source, and where they begin; None: see above.

    ``lexer`` strips blocks on the left, and has no line statements or line comments.
    """
    listed = _Listing(lexer, source)
    return (listed.tokens, listed.starts) if listed.is_regular else None


class _Listing:
    def __init__(self, lexer: Lexer, source: str) -> None:
        self._lexer = lexer
        self._source = source if lexer.keep_trailing_newline else source.removesuffix("\n")
        self.tokens: list[RawToken] = []
        self.starts: list[int] = []
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
        source, tokens, starts = self._source, self.tokens, self.starts
        whole, inner = _patterns(self._lexer, begin)
        at, line, end = self._at, self._line, begin.replace("begin", "end")
        open_: list[str] = []
        while True:
            # Within brackets what looks like the end of the tag is operators.
            found = (inner if open_ else whole).match(source, at)
            if found is None:
                self._at = at
                return at >= len(source)
            kind, value = found.lastgroup or "", found[0]
            if kind == "operator":
                if value in _PAIRS:
                    open_.append(_PAIRS[value])
                elif value in ")]}" and (not open_ or open_.pop() != value):
                    return False
            tokens.append((line, kind, value))
            starts.append(at)
            if "\n" in value:
                line += value.count("\n")
            at = found.end()
            if kind == end:
                self._line = line
                self._move_to(found)
                return True


@lru_cache(maxsize=8)
def _patterns(lexer: Lexer, begin: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What matches any token of a tag, and any but its end; groups have the names of kinds."""
    parts = []
    for rule in lexer.rules[begin]:
        flags = "".join(sign for sign, flag in _FLAGS.items() if rule.pattern.flags & flag)
        pattern = f"(?{flags}:{rule.pattern.pattern})" if flags else rule.pattern.pattern
        parts.append(f"(?P<{rule.tokens}>{pattern})")
    return re.compile("|".join(parts)), re.compile("|".join(parts[1:]))
