"""Messages over a pipe: the length of a frame, then a JSON object."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from typing import Any

_LENGTH = struct.Struct(">I")

#: A longer frame is no report of ours. In bytes.
_LONGEST = 2**30


class Closed(Exception):
    """The other side is gone."""


def frame(message: Mapping[str, Any]) -> bytes:
    """A message as it goes over a pipe."""
    # As ASCII: templates print lone surrogates, which no UTF-8 has.
    body = json.dumps(message, ensure_ascii=True).encode("ascii")
    return _LENGTH.pack(len(body)) + body


def send(descriptor: int, message: Mapping[str, Any] | bytes) -> None:
    """Write one frame. Raises ``OSError`` where nobody reads any more."""
    left = memoryview(message if isinstance(message, bytes) else frame(message))
    while left:
        left = left[os.write(descriptor, left) :]


class Reader:
    """Reads frames, and waits for them."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._buffer = bytearray()

    def receive(self) -> dict[str, Any]:
        """The next message, whenever it comes. Raises :class:`Closed`."""
        while (message := self._whole()) is None:
            self._read()
        return message

    def _read(self) -> None:
        part = os.read(self.descriptor, 65536)
        if not part:
            raise Closed
        self._buffer += part

    def _whole(self) -> dict[str, Any] | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > _LONGEST:
            raise Closed
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        message = json.loads(body)
        if not isinstance(message, dict):
            raise Closed
        return message
