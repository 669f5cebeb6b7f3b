"""Jinja tokens that know where they stand.

Jinja's parser hands the line number of a token to the node it makes and keeps nothing else. While
it parses, the index of the raw token therefore stands in the line number's place.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import Environment
from jinja2.lexer import TOKEN_EOF, Lexer, Token, TokenStream, operators

from templatefix.syntax.listing import RawToken, end_of, listing

#: Kinds of raw tokens of which the parser sees kind and text.
_AS_THEY_ARE = frozenset({"block_begin", "block_end", "variable_begin", "variable_end"})


class RawTokens:
    """The raw tokens of a newline-normalised source, but for the whitespace between those of a tag.

    ``starts`` and ``ends`` are where each begins and ends, in characters of the source.
    """

    def __init__(self, environment: Environment, source: str) -> None:
        listed = listing(environment.lexer, source) or _told_by_jinja(environment.lexer, source)
        self.tokens, self.starts, self.ends = listed

    def line(self, index: int) -> int:
        """The line of a token, 1-based."""
        return self.tokens[index][0] if index < len(self.tokens) else 1


def _told_by_jinja(lexer: Lexer, source: str) -> tuple[list[RawToken], list[int], list[int]]:
    """As :func:`listing`; raises what Jinja raises of the source."""
    tokens = [each for each in lexer.tokeniter(source, None) if each[1] != "whitespace"]
    starts = []
    position = 0
    for _, _, value in tokens:
        start = source.index(value, position)
        # What Jinja strips around a tag is dropped from its token stream.
        if start > position and source[position:start].strip():
            raise AssertionError(f"the lexer skipped {source[position:start]!r}")
        position = start + len(value)
        starts.append(start)
    ends = [
        end_of(kind, value, start) for (_, kind, value), start in zip(tokens, starts, strict=True)
    ]
    return tokens, starts, ends


class LocatedStream(TokenStream):
    """A token stream that knows the raw index of the token last taken from it, and of the next.

    The lines of its tokens are their raw indexes.
    """

    last: int
    at: int

    def __init__(self, environment: Environment, raw: RawTokens) -> None:
        self.last = self.at = -1
        super().__init__(_located(environment, raw), None, None)
        self.last = -1
        if self.eos:  # an empty text has no token
            self.at = -1

    def __next__(self) -> Token:
        # As Jinja's, without a further call: an expression has many tokens.
        taken = self.current
        if self.at >= 0:
            self.last = self.at
        if self._pushed:
            self.current = self._pushed.popleft()
        elif taken.type is not TOKEN_EOF:
            try:
                self.current = next(self._iter)
            except StopIteration:
                self.close()
        self.at = self.current.lineno
        return taken

    def look(self) -> Token:
        last, at = self.last, self.at
        token = super().look()
        self.last, self.at = last, at
        return token


def _located(environment: Environment, raw: RawTokens) -> Iterator[Token]:
    """The tokens that the parser sees, each with the index of the raw token for its line.

    Jinja's lexer makes a token of a raw one, asking of each what it may be. Most are of kinds of
    which it makes what they are, and these need not be sent through it.
    """
    make = tuple.__new__
    for index, (_, kind, value) in enumerate(raw.tokens):
        if kind == "operator":
            kind = operators[value]
        elif not (
            kind in _AS_THEY_ARE
            or (kind == "name" and value.isidentifier())
            or (kind == "data" and "\r" not in value)
        ):
            if kind == "string" and "\\" not in value and value.isascii():
                value = value[1:-1]
            else:
                yield from environment.lexer.wrap([(index, kind, value)])
                continue
        yield make(Token, (index, kind, value))
