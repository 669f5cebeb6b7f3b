"""Where a tokenizer cuts a text before it looks at it: at the added tokens.

This follows the added vocabulary of the ``tokenizers`` library (0.23): the text is searched for
the literal texts of the added tokens, leftmost first and the longest of those that start there;
what lies between them is normalised, pre-tokenised and encoded piece by piece. So no piece can
influence another, and each need be encoded only once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

#: Unicode White_Space, which is what the library strips; Python's ``\s`` has four more.
_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACES = re.compile(f"[{_SPACE}]+")
_SPACES_AT_END = re.compile(f"[{_SPACE}]+\\Z")


#: Up to so many literals one pattern of them all is quickest.
_FEW = 64


@dataclass(frozen=True)
class AddedLiteral:
    """An added token. ``lstrip`` and ``rstrip``: white space beside it belongs to the token.

    ``single_word`` tokens match only between non-word characters, ``normalized`` ones are looked
    for in a second pass, in the normalised text.
    """

    text: str
    token_id: int
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


class Piece(NamedTuple):
    """``text[start:end]``: an added token when ``token_id`` is set, else text to encode.

    ``resume`` is true where the rest of the text is split alike whatever came before.
    """

    start: int
    end: int
    token_id: int | None
    resume: bool = False


class LiteralSplitter:
    """Splits at a set of literals in one pass. ``final``: what comes before them has no say."""

    def __init__(self, literals: Iterable[AddedLiteral], *, final: bool) -> None:
        self._final = final
        self._literals = {literal.text: literal for literal in literals if literal.text}
        self.lookahead = max(map(len, self._literals), default=1)
        # Added vocabularies reach thousands of tokens with few beginnings: a pattern finds the
        # beginnings, and a set look-up for each length decides.
        self._lengths: dict[str, list[int]] = {}
        self._candidates: re.Pattern[str] | None = None
        self._all: re.Pattern[str] | None = None
        self._spaced = any(each.lstrip or each.rstrip for each in self._literals.values())
        if 0 < len(self._literals) <= _FEW:
            self._all = _any_of(self._literals)
            return
        for text in self._literals:
            self._lengths.setdefault(text[:2], []).append(len(text))
        for beginning, lengths in self._lengths.items():
            self._lengths[beginning] = sorted(set(lengths), reverse=True)
        if self._lengths:
            self._candidates = _any_of(self._lengths)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to split at."""
        return not self._literals

    def in_turns(self, text: str) -> list[str] | None:
        """The stretches between literals and the literals, in turns; the first and the last are
        stretches, which may be empty. None where only :meth:`split` can tell."""
        if self._all is None or self._spaced or not self._final:
            return None
        return self._all.split(text)

    @cached_property
    def cuts_stay(self) -> bool:
        """Whether what follows a text has no say in how it was cut: no literal holds another."""
        return not any(
            one in other for one in self._literals for other in self._literals if one is not other
        )

    def split(self, text: str, start: int, stop: int) -> Iterator[Piece]:
        """The pieces of ``text[start:stop]``; ``start`` is 0 or the end of an added token."""
        done = position = start
        while (literal_at := self._next(text, position, stop)) is not None:
            literal, found = literal_at
            begin, end = found, found + len(literal.text)
            position = end
            if literal.lstrip and (spaces := _SPACES_AT_END.search(text, done, begin)):
                begin = spaces.start()
            if literal.rstrip and (spaces := _SPACES.match(text, end, stop)):
                position = end = spaces.end()
            if done < begin:
                yield Piece(done, begin, None)
            yield Piece(begin, end, literal.token_id, self._final)
            done = end
        if done < stop:
            yield Piece(done, stop, None)

    def _next(self, text: str, start: int, stop: int) -> tuple[AddedLiteral, int] | None:
        if self._all is not None:
            found = self._all.search(text, start, stop)
            return None if found is None else (self._literals[found.group()], found.start())
        if self._candidates is None:
            return None
        position = start
        while candidate := self._candidates.search(text, position, stop):
            position = candidate.start()
            # A literal of one character is its own beginning, and may begin a longer one.
            for beginning in (text[position : position + 2], text[position]):
                for length in self._lengths.get(beginning, ()):
                    literal = self._literals.get(text[position : position + length])
                    if literal is not None and position + length <= stop:
                        return literal, position
            position += 1
        return None


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds the longest of the texts that begin where the first of them does."""
    return re.compile(f"({'|'.join(map(re.escape, sorted(texts, key=len, reverse=True)))})")


class Splitter:
    """Splits as the library does: the plain added tokens first, the normalised ones after.

    ``identity_normalizer`` says that normalised text is the text itself; otherwise the second
    pass is left to the tokenizer, which sees each piece with its normalised tokens in it.
    ``carrier`` is a token that may stand before any piece without changing where it is cut.
    """

    def __init__(self, literals: Iterable[AddedLiteral], identity_normalizer: bool) -> None:
        literals = list(literals)
        plain = [literal for literal in literals if not literal.normalized]
        normalized = [literal for literal in literals if literal.normalized]
        second = identity_normalizer and not any(literal.single_word for literal in normalized)
        self.carrier = _carrier(plain)
        self._single_words = [literal.text for literal in plain if literal.single_word]
        self._first = LiteralSplitter(plain, final=True)
        self._second = LiteralSplitter(normalized if second else [], final=False)
        self._second_is_empty = self._second.is_empty
        self._never = any(literal.rstrip for literal in literals) and any(
            _SPACES.match(literal.text) for literal in literals
        )

    @property
    def lookahead(self) -> int:
        """How many characters after a cut may have had a say in it."""
        return self._first.lookahead

    @property
    def cuts_stay(self) -> bool:
        """Whether what follows a text has no say in how :meth:`in_turns` cut it."""
        return self._first.cuts_stay

    def can_split(self, text: str) -> bool:
        """False where the cuts are not certain, so that only the whole text may be encoded."""
        if self._single_words and any(word in text for word in self._single_words):
            return False
        return not self._never

    def in_turns(self, text: str, start: int = 0) -> list[str] | None:
        """What :meth:`split` finds, as texts: those to encode and added tokens in turns.

        The first and the last are to be encoded, and may be empty. Pieces may be resumed after
        each token. None where a token takes the space beside it, or there are many of them.
        """
        return self._first.in_turns(text[start:]) if self._second_is_empty else None

    def split(self, text: str, start: int = 0) -> Iterator[Piece]:
        """The pieces of ``text[start:]``; ``start`` is 0 or the end of a resumable piece."""
        pieces = self._first.split(text, start, len(text))
        return pieces if self._second_is_empty else self._split_again(text, pieces)

    def _split_again(self, text: str, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            if piece.token_id is not None:
                yield piece
            else:
                yield from self._second.split(text, piece.start, piece.end)


def _carrier(plain: list[AddedLiteral]) -> AddedLiteral | None:
    """An added token that is cut off whatever text follows it, the shortest there is."""
    texts = [literal.text for literal in plain]
    return min(
        (
            literal
            for literal in plain
            if not (literal.lstrip or literal.rstrip or literal.single_word)
            and sum(text.startswith(literal.text) for text in texts) == 1
        ),
        key=lambda literal: len(literal.text),
        default=None,
    )
