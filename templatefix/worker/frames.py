"""Messages over a pipe: the length of a frame, then a JSON object."""

from __future__ import annotations

import json
import os
import select
import struct
from collections.abc import Mapping
from typing import Any

_LENGTH = struct.Struct(">I")

#: A longer frame is no report of ours. In bytes.
_LONGEST = 2**30


class Closed(Exception):
    """The other side is gone."""


def send(descriptor: int, message: Mapping[str, Any]) -> None:
    """Write one frame. Raises ``OSError`` where nobody reads any more."""
    # As ASCII: templates print lone surrogates, which no UTF-8 has.
    body = json.dumps(message, ensure_ascii=True).encode("ascii")
    left = memoryview(_LENGTH.pack(len(body)) + body)
    while left:
        left = left[os.write(descriptor, left) :]


class Reader:
    """Reads frames, waiting for them or not."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def receive(self) -> dict[str, Any]:
        """The next message, whenever it comes. Raises :class:`Closed`."""
        while (message := self.take()) is None:
            self.wait()
        return message

    def take(self) -> dict[str, Any] | None:
        """The next message; None where it is not there yet. Raises :class:`Closed`."""
        while True:
            message = self._whole()
            if message is not None or not self._poll.poll(0):
                return message
            part = os.read(self.descriptor, 65536)
            if not part:
                raise Closed
            self._buffer += part

    def wait(self, seconds: float | None = None) -> None:
        """Until there is something to read, or the time is over."""
        self._poll.poll(None if seconds is None else seconds * 1000)

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
