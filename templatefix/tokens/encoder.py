"""What the rest of the program asks of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Encoder(Protocol):
    """Turns text into token ids as a server does, and ids back into text.

    ``source`` is printable. ``approximate`` is true for the tokenizer that ships with the
    program: its token counts are estimates. ``characters_encoded`` counts the characters that
    reached the tokenizer, which is what encoding costs. The methods raise ``TargetError`` when
    the tokenizer itself fails.
    """

    @property
    def source(self) -> str: ...

    @property
    def approximate(self) -> bool: ...

    @property
    def characters_encoded(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, without the special tokens that a tokenizer likes to add.

        Whoever asks again may get the same list: it is not to be changed.
        """

    def encode_continuation(self, text: str) -> list[int]:
        """The ids of ``text`` as the continuation of other text: no dummy space before it."""

    def token_text(self, token_id: int) -> str:
        """The text that one token stands for, ``""`` for an id that the tokenizer lacks.

        Bytes that are no character by themselves come back as U+FFFD.
        """

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of a run of tokens, special tokens included and no space stripped."""

    def token_id(self, text: str) -> int | None:
        """The id of the token that is spelt ``text``; special tokens are looked up this way."""

    def special_tokens(self) -> frozenset[str]:
        """The texts of the added tokens, be they marked special or not."""
