"""The key-value part of a GGUF file, read lazily and without belief in what the file claims.

The ``gguf`` package's own reader also builds every tensor and, on a file that lies about the
length of an array, loops without end. This one reads the header's keys only: it seeks over what
nobody asks for, allocates nothing larger than what is left in the file, and bounds its own work.
Format: the GGUF specification in the ggml repository, versions 2 and 3.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO

MAGIC = b"GGUF"

_VERSIONS = (2, 3)
_STRING = 8
_ARRAY = 9
# Codes of struct for the scalar types, by GGUF's type numbers.
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_MAX_STRING = 64 * 2**20
_MAX_TEXT = 2 * _MAX_STRING
_MAX_KEYS = 65_536
# The largest vocabularies have under 300,000 tokens, each with a text, a score and a merge.
_MAX_ENTRIES = 4_000_000
_CUT = "it ends in the middle of its metadata"


class Malformed(ValueError):
    """The bytes are not what GGUF's specification allows, or end too early."""


@dataclass(frozen=True)
class StringArray:
    """An array of strings left in the file: where it begins, and how many strings it has."""

    offset: int
    length: int


Scalar = str | int | float | bool


@dataclass
class Metadata:
    """Scalars by key; arrays of strings by key, unread."""

    scalars: dict[str, Scalar] = field(default_factory=dict)
    string_arrays: dict[str, StringArray] = field(default_factory=dict)


class MetadataReader:
    """Reads forward through an open GGUF file."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = os.fstat(stream.fileno()).st_size
        self._order = "<"
        self._length = struct.Struct("<Q")
        self._entries = 0
        self._text = 0

    def read(self, wanted_texts: tuple[str, ...]) -> Metadata:
        """All keys; of texts only those whose key begins with a wanted prefix.

        Some files carry a whole ``tokenizer.json`` as one text. Raises ``Malformed``.
        """
        if self._take(4) != MAGIC:
            raise Malformed("it does not begin with GGUF")
        version: int = struct.unpack("<I", self._take(4))[0]
        if version & 0xFFFF == 0:  # written by a big-endian machine
            self._order = ">"
            self._length = struct.Struct(">Q")
            version = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in _VERSIONS:
            raise Malformed(f"version {version} of the format is not supported")
        self._integer("Q")  # the number of tensors
        metadata = Metadata()
        number = self._integer("Q")
        if number > _MAX_KEYS:
            raise Malformed(f"it claims {number} keys")
        for _ in range(number):
            key = self._string()
            kind = self._integer("I")
            if kind == _STRING and not key.startswith(wanted_texts):
                self._skip_strings(1)
            else:
                self._value(key, kind, metadata)
        return metadata

    def strings(self, array: StringArray, wanted: Iterable[int]) -> dict[int, str]:
        """The strings at some indices of an array; indices beyond its end are left out."""
        found: dict[int, str] = {}
        self._stream.seek(array.offset)
        position = 0
        for index in sorted(index for index in set(wanted) if index < array.length):
            self._skip_strings(index - position)
            found[index] = self._string()
            position = index + 1
        return found

    def _value(self, key: str, kind: int, metadata: Metadata) -> None:
        if kind == _STRING:
            metadata.scalars.setdefault(key, self._string())
        elif kind == _ARRAY:
            self._array(key, metadata, depth=0)
        elif kind in _SCALARS:
            code = _SCALARS[kind]
            content = self._take(struct.calcsize(code))
            metadata.scalars.setdefault(key, struct.unpack(self._order + code, content)[0])
        else:
            raise Malformed(f"key {key[:80]!r} has the unknown type {kind}")

    def _array(self, key: str, metadata: Metadata, depth: int) -> None:
        """Step over an array, remembering where one of strings begins."""
        kind = self._integer("I")
        length = self._integer("Q")
        if kind in _SCALARS:
            self._skip(length * struct.calcsize(_SCALARS[kind]))
        elif kind == _STRING:
            offset = self._stream.tell()
            self._count_entries(length)
            self._skip_strings(length)
            if depth == 0:
                metadata.string_arrays.setdefault(key, StringArray(offset, length))
        elif kind == _ARRAY and depth < 4:
            self._count_entries(length)
            for _ in range(length):
                self._array(key, metadata, depth + 1)
        else:
            raise Malformed(f"key {key[:80]!r} has an array of the unknown type {kind}")

    def _count_entries(self, number: int) -> None:
        self._entries += number
        if self._entries > _MAX_ENTRIES:
            raise Malformed("it claims more entries than any model has")

    def _integer(self, code: str) -> int:
        number: int = struct.unpack(self._order + code, self._take(struct.calcsize(code)))[0]
        return number

    def _string(self) -> str:
        length = self._integer("Q")
        if length > _MAX_STRING:
            raise Malformed(f"it claims a string of {length} bytes")
        self._text += length
        if self._text > _MAX_TEXT:
            raise Malformed("it holds more text than any model's metadata")
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"it holds a string that is not UTF-8: {error.reason}") from error

    def _take(self, length: int) -> bytes:
        self._expect(length)
        content = self._stream.read(length)
        if len(content) != length:
            raise Malformed(_CUT)
        return content

    def _skip(self, length: int) -> None:
        self._expect(length)
        self._stream.seek(length, os.SEEK_CUR)

    def _skip_strings(self, number: int) -> None:
        """Step over strings: the loop that runs once for each token of a vocabulary."""
        unpack, read, seek = self._length.unpack, self._stream.read, self._stream.seek
        left = self._size - self._stream.tell()
        for _ in range(number):
            prefix = read(8)
            if len(prefix) < 8:
                raise Malformed(_CUT)
            (length,) = unpack(prefix)
            left -= 8 + length
            if left < 0:
                raise Malformed(_CUT)
            seek(length, os.SEEK_CUR)

    def _expect(self, length: int) -> None:
        if length > self._size - self._stream.tell():
            raise Malformed(_CUT)
