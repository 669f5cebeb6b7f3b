"""How vocabularies spell bytes and spaces."""

from __future__ import annotations

import re
from functools import cache, lru_cache

_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")


@cache
def _byte_alphabet() -> dict[str, int]:
    """The printable character for each byte in byte-level vocabularies (GPT-2's encoder.py).

    Printable Latin-1 characters stand for themselves; the others follow from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


@lru_cache(maxsize=4096)
def token_bytes(spelling: str, byte_level: bool) -> bytes:
    """The UTF-8 bytes that a vocabulary entry stands for.

    Byte-level vocabularies spell every byte as a character; SentencePiece ones spell a space as
    ``▁`` and a lone byte as ``<0x0A>``.
    """
    if byte_level:
        alphabet = _byte_alphabet()
        if alphabet.keys() >= set(spelling):
            return bytes([alphabet[character] for character in spelling])
    if byte := _BYTE_TOKEN.fullmatch(spelling):
        return bytes([int(byte[1], 16)])
    return spelling.replace("▁", " ").encode("utf-8", "replace")
