"""Jinja tokens that know where they stand.

Jinja's parser hands the line number of a token to the node it makes and keeps nothing else. A
line number that also carries the token's index therefore reaches every node of the AST, and the
nodes still show their true line.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import Environment
from jinja2.lexer import Token, TokenStream

from templatefix.syntax.span import Span


class TokenLine(int):
    """A line number that remembers which raw token stood there."""

    token: int

    @classmethod
    def of(cls, line: int, token: int) -> TokenLine:
        located = cls(line)
        located.token = token
        return located


class RawTokens:
    """The raw tokens of a newline-normalised source, with their places and types."""

    def __init__(self, environment: Environment, source: str) -> None:
        self.tokens: list[tuple[int, str, str]] = list(environment.lexer.tokeniter(source, None))
        self.spans: list[Span] = []
        position = 0
        for _, kind, value in self.tokens:
            start = source.index(value, position)
            # What Jinja strips around a tag is dropped from its token stream.
            if source[position:start].strip():
                raise AssertionError(f"the lexer skipped {source[position:start]!r}")
            position = start + len(value)
            # The end of a tag swallows the whitespace that its dash or trim_blocks removes.
            end = start + len(value.rstrip()) if kind.endswith("_end") else position
            self.spans.append(Span(start, end))

    def significant_before(self, index: int) -> int:
        """The last token before ``index`` that the parser sees."""
        index -= 1
        while self.tokens[index][1] == "whitespace":
            index -= 1
        return index


class LocatedStream(TokenStream):
    """A token stream that remembers the raw index of the token last taken from it."""

    last: int

    def __init__(self, environment: Environment, raw: RawTokens) -> None:
        self.last = -1
        super().__init__(_located(environment, raw), None, None)
        self.last = -1

    def __next__(self) -> Token:
        taken = super().__next__()
        if isinstance(taken.lineno, TokenLine):
            self.last = taken.lineno.token
        return taken

    def look(self) -> Token:
        last = self.last
        token = super().look()
        self.last = last
        return token

    @property
    def at(self) -> int:
        """The raw index of the token that comes next."""
        line = self.current.lineno
        return line.token if isinstance(line, TokenLine) else -1


def _located(environment: Environment, raw: RawTokens) -> Iterator[Token]:
    lexer = environment.lexer
    for index, token in enumerate(raw.tokens):
        for line, kind, value in lexer.wrap((token,)):
            yield Token(TokenLine.of(line, index), kind, value)
