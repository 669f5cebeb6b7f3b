"""Jinja tokens that know where they stand.

Jinja's parser hands the line number of a token to the node it makes and keeps nothing else. A
line number that also carries the token's index therefore reaches every node of the AST, and the
nodes still show their true line.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import Environment
from jinja2.lexer import TOKEN_EOF, Lexer, Token, TokenStream, operators

from templatefix.syntax.listing import RawToken, listing

#: Kinds of raw tokens of which the parser sees kind and text.
_AS_THEY_ARE = frozenset({"block_begin", "block_end", "variable_begin", "variable_end"})


class TokenLine(int):
    """A line number that remembers which raw token stood there."""

    token: int

    @classmethod
    def of(cls, line: int, token: int) -> TokenLine:
        located = cls(line)
        located.token = token
        return located


class RawTokens:
    """The raw tokens of a newline-normalised source, but for the whitespace between those of a tag.

    ``starts`` and ``ends`` are where each begins and ends, in characters of the source.
    """

    def __init__(self, environment: Environment, source: str) -> None:
        listed = listing(environment.lexer, source) or _told_by_jinja(environment.lexer, source)
        self.tokens, self.starts = listed
        # The end of a tag swallows the whitespace that its dash or trim_blocks removes.
        self.ends = [
            start + len(value.rstrip() if kind.endswith("_end") else value)
            for (_, kind, value), start in zip(self.tokens, self.starts, strict=True)
        ]


def _told_by_jinja(lexer: Lexer, source: str) -> tuple[list[RawToken], list[int]]:
    """The raw tokens of a source and where they begin; raises what Jinja raises of it."""
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
    return tokens, starts


class LocatedStream(TokenStream):
    """A token stream that knows the raw index of the token last taken from it, and of the next."""

    last: int
    at: int

    def __init__(self, environment: Environment, raw: RawTokens) -> None:
        self.last = self.at = -1
        super().__init__(_located(environment, raw), None, None)
        self.last = -1

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
        line = self.current.lineno
        self.at = line.token if type(line) is TokenLine else -1  # an empty text has no token
        return taken

    def look(self) -> Token:
        last, at = self.last, self.at
        token = super().look()
        self.last, self.at = last, at
        return token


def _located(environment: Environment, raw: RawTokens) -> Iterator[Token]:
    """The tokens that the parser sees, each with a line that knows the raw token.

    Jinja's lexer makes a token of a raw one, asking of each what it may be. Most are of kinds of
    which it makes what they are, and these need not be sent through it.
    """
    make, line_of = tuple.__new__, TokenLine.of
    for index, (line, kind, value) in enumerate(raw.tokens):
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
                yield from environment.lexer.wrap([(line_of(line, index), kind, value)])
                continue
        yield make(Token, (line_of(line, index), kind, value))
