"""Encoding that pays for each stretch of text once.

A conversation of n turns is rendered n times, each time a little longer. Encoding every prompt
from its start would cost a number of characters that is quadratic in the turns.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from templatefix.errors import TargetError

from .split import AddedLiteral, Piece, Splitter
from .vocabulary import token_bytes

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
#: Encoded characters that are kept, so that a long search does not fill the memory.
_CACHE_CHARACTERS = 30_000_000
_REMEMBERED_TEXTS = 4
#: Characters up to which a text is looked up from its start: to find out with which of the texts
#: before it begins would take longer.
_SHORT = 4000
#: Characters of whole texts whose ids are kept.
_WHOLE_CHARACTERS = 2_000_000
#: A line with all the line breaks behind it. No token of the shipped tokenizer goes on after those,
#: and none that follows them is cut otherwise for what stands before.
_LINES = re.compile(r"[^\r\n]*[\r\n]+|[^\r\n]+")
_PROBES = (
    "user\nHi there",
    " two  spaces ",
    "\n\n",
    "x",
    "Ä e\u0301 ﬁ 中文",
    "▁a b",
    "42",
    "\t<b>",
)


@dataclass(frozen=True)
class _Encoded:
    """A text with its ids. ``cuts[i]`` is a resumable position, before it ``counts[i]`` ids."""

    text: str
    ids: list[int]
    cuts: list[int]
    counts: list[int]

    def shared_cuts(self, text: str, lookahead: int, least: int) -> int:
        """How many of the first cuts are those of another text, which agrees with this one up to
        ``lookahead`` characters behind them; ``least`` where there are no more than that."""
        low, high, done = least, bisect_right(self.cuts, len(self.text) - lookahead), 0
        middle = high  # one text is most often the beginning of the other
        while low < high:
            end = self.cuts[middle - 1] + lookahead
            if text.startswith(self.text[done:end], done):
                low, done = middle, end
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return low


class _Whole(NamedTuple):
    """The ids of a whole text. Behind the character ``start`` it holds no added token; before that
    it has ``settled`` ids."""

    ids: list[int]
    start: int = 0
    settled: int = 0


_NOTHING = _Whole([])


@dataclass
class Segments:
    """What is known of segments: their ids, of those at a text's start and of those further on.

    There are many, and the garbage collector is to look at none of them twice: a tuple of numbers
    is no concern of its.
    """

    at_start: dict[str, tuple[int, ...]] = field(default_factory=dict)
    further_on: dict[str, tuple[int, ...]] = field(default_factory=dict)
    characters: int = 0

    def known(self, first: bool) -> dict[str, tuple[int, ...]]:
        """Those that stand ``first`` in a text, or do not."""
        return self.at_start if first else self.further_on

    def add(self, first: bool, segment: str, ids: tuple[int, ...]) -> None:
        if self.characters > _CACHE_CHARACTERS:
            self.forget()
        self.characters += len(segment)
        self.known(first)[segment] = ids

    def forget(self) -> None:
        self.at_start.clear()
        self.further_on.clear()
        self.characters = 0


class SegmentEncoder:
    """An :class:`~.encoder.Encoder` over a tokenizer of the ``tokenizers`` library."""

    approximate = False
    _anchor: str | None = None

    def __init__(self, tokenizer: Tokenizer, source: str) -> None:
        self._begin(tokenizer, source, added_literals(tokenizer), Segments())
        self._choose_method()
        self._anchor = self._choose_anchor()
        self._forget()

    def _begin(
        self,
        tokenizer: Tokenizer,
        source: str,
        added: Iterable[AddedLiteral],
        segments: Segments,
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.source = source
        self.characters_encoded = 0
        self._tokenizer = tokenizer
        self._added = {literal.token_id: literal for literal in added}
        self._ids = {literal.text: literal.token_id for literal in self._added.values()}
        self._remembered: deque[_Encoded] = deque(maxlen=_REMEMBERED_TEXTS)
        self._whole: dict[str, _Whole] = {}
        self._last = "", _NOTHING
        self._whole_characters = 0
        self._segments = segments
        self._forget_turns()
        self._splitter: Splitter | None = None
        self._carrier: AddedLiteral | None = None
        self._byte_level = "ByteLevel" in type(tokenizer.decoder).__name__

    # Encoding

    def encode(self, text: str) -> list[int]:
        # Runs in other modes, and searches for blame, come back to the same prompts.
        known = self._whole.get(text)
        if known is None:
            known = self._encode(text)
            if self._whole_characters > _WHOLE_CHARACTERS:
                self._whole.clear()
                self._whole_characters = 0
            self._whole_characters += len(text)
            self._whole[text] = known
        self._last = text, known
        return known.ids

    def _encode(self, text: str) -> _Whole:
        if not text.isascii():
            text = _LONE_SURROGATES.sub("\ufffd", text)
        if self._splitter is None or not self._splitter.can_split(text):
            return _Whole(list(self._segment(text, first=True)))
        if len(text) <= _SHORT:
            # Most often a completion behind its prompt, which was encoded just before.
            last, known = self._last
            if not (text.startswith(last) and self._splitter.cuts_stay):
                known = _NOTHING
            turns = self._splitter.in_turns(text, known.start)
            if turns is not None:
                return self._look_up(text, turns, known)
        return _Whole(self._encode_long(text, self._splitter))

    def _encode_long(self, text: str, splitter: Splitter) -> list[int]:
        start, encoded = self._resume(text, splitter.lookahead)
        if start == len(text):
            return list(encoded.ids)
        turns = splitter.in_turns(text, start)
        if turns is None:
            self._add_pieces(encoded, splitter.split(text, start))
        else:
            self._add_turns(encoded, start, turns)
        self._remembered.append(encoded)
        return list(encoded.ids)

    def _look_up(self, text: str, turns: list[str], begun: _Whole) -> _Whole:
        """The ids of a whole text that was split in turns from ``begun.start`` on."""
        known = self._turns
        first = self._segment(turns[0], first=begun.start == 0) if turns[0] else ()
        ids = begun.ids[: begun.settled]
        ids += first
        start, settled = begun.start, begun.settled
        found: Sequence[int] | None = None
        for each in turns[1:]:
            found = known.get(each)
            if found is None:
                found = known[each] = self._segment(each, first=False)
                self._turns_characters += len(each)
            ids += found
        if found is not None:
            start, settled = len(text) - len(turns[-1]), len(ids) - len(found)
        if self._turns_characters > _CACHE_CHARACTERS:
            self._forget_turns()
        return _Whole(ids, start, settled)

    def _forget_turns(self) -> None:
        """Begin anew to gather the ids of segments and tokens behind the start of a text."""
        self._turns: dict[str, Sequence[int]] = {"": ()}
        self._turns |= {text: (token_id,) for text, token_id in self._ids.items()}
        self._turns_characters = 0

    def _add_pieces(self, encoded: _Encoded, pieces: Iterable[Piece]) -> None:
        ids = encoded.ids
        for piece in pieces:
            if piece.token_id is None:
                segment = encoded.text[piece.start : piece.end]
                ids += self._segment(segment, first=piece.start == 0)
            else:
                ids.append(piece.token_id)
            if piece.resume:
                encoded.cuts.append(piece.end)
                encoded.counts.append(len(ids))

    def _add_turns(self, encoded: _Encoded, start: int, turns: list[str]) -> None:
        """Add segments and added tokens in turns, which is what most texts are split into."""
        ids, position = encoded.ids, start
        for segment, token in zip(turns[::2], turns[1::2], strict=False):
            if segment:
                ids += self._segment(segment, first=position == 0)
            ids.append(self._ids[token])
            position += len(segment) + len(token)
            encoded.cuts.append(position)
            encoded.counts.append(len(ids))
        if turns[-1]:
            ids += self._segment(turns[-1], first=position == 0)

    def encode_continuation(self, text: str) -> list[int]:
        if self._anchor is not None:
            anchor_ids = self.encode(self._anchor)
            joint = self.encode(self._anchor + text)
            if joint[: len(anchor_ids)] == anchor_ids:
                return joint[len(anchor_ids) :]
        return self.encode(text)

    def _resume(self, text: str, lookahead: int) -> tuple[int, _Encoded]:
        """What is known of ``text`` already: up to where, and the ids before that position."""
        start, index, best = 0, 0, _Encoded(text, [], [], [])
        for known in reversed(self._remembered):
            if known.text == text:
                return len(text), known
            if not known.cuts or known.cuts[-1] <= start:
                continue  # it reaches no further
            before = bisect_right(known.cuts, start)
            cuts = known.shared_cuts(text, lookahead, before)
            if cuts > before:
                start, index, best = known.cuts[cuts - 1], cuts, known
        count = best.counts[index - 1] if index else 0
        return start, _Encoded(text, best.ids[:count], best.cuts[:index], best.counts[:index])

    def _segment(self, segment: str, first: bool) -> tuple[int, ...]:
        """The ids of a stretch without plain added tokens, at the text's start or further on."""
        first = first or self._carrier is None
        ids = self._segments.known(first).get(segment)
        if ids is None:
            if first or self._carrier is None:
                ids = tuple(self._give(segment))
            else:
                ids = tuple(self._give(self._carrier.text + segment)[1:])
            self._segments.add(first, segment, ids)
        return ids

    def _give(self, text: str) -> list[int]:
        self.characters_encoded += len(text)
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        except BaseException as error:
            # The library panics in Rust on some files; that arrives outside of Exception.
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise TargetError(
                    self.source,
                    f"the tokenizer failed to encode a text: {error}",
                    "its tokenizer.json is damaged; fetch it again or pass --tokenizer",
                ) from error
            raise

    # Choosing how to encode

    def _choose_method(self) -> None:
        """The cheapest way of encoding by segments that agrees with encoding whole texts.

        A segment alone is right for most tokenizers. Those that put a dummy space only before
        the first word of a text need a *carrier*: an added token before the segment, whose id is
        dropped. Where neither holds, whole texts are encoded.
        """
        identity = _is_identity(self._tokenizer)
        literals = list(self._added.values())
        for second_pass in (True, False) if identity else (False,):
            splitter = Splitter(literals, second_pass)
            for carrier in (None, splitter.carrier):
                self._splitter, self._carrier = splitter, carrier
                if all(self.encode(text) == self._give(text) for text in self._probe_texts()):
                    return
                self._forget()
        self._splitter = self._carrier = None

    def _probe_texts(self) -> list[str]:
        added = list(self._added.values())
        marks = [literal.text for literal in (*added[:2], *added[-2:])]
        marks += [literal.text for literal in added if literal.normalized][:2]
        return [
            f"{before}{mark}{after}{mark}{mark}{before}"
            for mark in marks
            for before, after in zip(_PROBES, (*_PROBES[1:], ""), strict=True)
        ] + [*_PROBES, *marks]

    def _choose_anchor(self) -> str | None:
        """A text before a continuation that takes the dummy space upon itself, where needed."""
        ids = self.encode("a")
        if not ids or not (self._tokenizer.id_to_token(ids[0]) or "").startswith(("▁", "Ġ")):
            return None
        for anchor in ("\n", ">", "."):
            anchor_ids, joint = self.encode(anchor), self.encode(anchor + "a")
            if joint[: len(anchor_ids)] == anchor_ids and joint[len(anchor_ids) :] != ids:
                return anchor
        return None

    def _forget(self) -> None:
        self._remembered.clear()
        self._whole.clear()
        self._whole_characters = 0
        self._last = "", _NOTHING
        self._segments.forget()
        self._forget_turns()
        self.characters_encoded = 0

    # Tokens

    def token_text(self, token_id: int) -> str:
        return self._bytes_of(token_id).decode("utf-8", "replace")

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(map(self._bytes_of, token_ids)).decode("utf-8", "replace")

    def token_id(self, text: str) -> int | None:
        return self._tokenizer.token_to_id(text)

    def special_tokens(self) -> frozenset[str]:
        return frozenset(literal.text for literal in self._added.values())

    def _bytes_of(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id].text.encode("utf-8", "replace")
        known = 0 <= token_id < 2**32
        spelling = self._tokenizer.id_to_token(token_id) if known else None
        return b"" if spelling is None else token_bytes(spelling, self._byte_level)


class ShippedEncoder(SegmentEncoder):
    """The shipped tokenizer with the special tokens of one template.

    They are cut out of a text before the tokenizer sees it, so that the tokenizer itself, and
    what it made of the segments between them, serves every template. How to encode need not be
    tried out: the file is known to be byte-level, without a normalizer or a dummy space.
    """

    approximate = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        source: str,
        added: Iterable[AddedLiteral],
        segments: Segments,
    ) -> None:
        self._begin(tokenizer, source, added, segments)
        self._splitter = Splitter(self._added.values(), identity_normalizer=True)

    def _give(self, text: str) -> list[int]:
        """Line by line: templates share more of those than whole segments."""
        lines = _LINES.findall(text)
        if len(lines) < 2:
            return super()._give(text)
        return [token_id for line in lines for token_id in self._segment(line, first=True)]

    def token_id(self, text: str) -> int | None:
        return self._ids[text] if text in self._ids else super().token_id(text)


def added_literals(tokenizer: Tokenizer) -> list[AddedLiteral]:
    """The added tokens of a tokenizer."""
    return [
        AddedLiteral(
            token.content,
            token_id,
            token.lstrip,
            token.rstrip,
            token.single_word,
            token.normalized,
        )
        for token_id, token in tokenizer.get_added_tokens_decoder().items()
    ]


def _is_identity(tokenizer: Tokenizer) -> bool:
    normalizer = tokenizer.normalizer
    return normalizer is None or (type(normalizer).__name__ == "Sequence" and len(normalizer) == 0)
