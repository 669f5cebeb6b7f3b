"""What a forked child is doing, in memory that the parent sees: no message is sent for a step.

A parent that woke for each of a template's hundred renderings would cost more than the limits do.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Mapping
from typing import Any

#: How many times the board was changed, whether a step is running, and the length of its words.
_HEAD = struct.Struct(">QBI")
_SIZE = 65536
_ENCODER = json.JSONEncoder(default=str)


class Board:
    """Made before the fork; the child writes, the parent reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self._changes = 0
        self._length = 0

    def write(self, step: Mapping[str, Any] | None) -> None:
        """A step begins, or ends (None): its words stay until the next one."""
        self._changes += 1
        if step is not None:
            words = words_of(step).encode("ascii")
            self._length = len(words)
            self._memory[_HEAD.size : _HEAD.size + self._length] = words
        _HEAD.pack_into(self._memory, 0, self._changes, step is not None, self._length)

    def look(self) -> tuple[int, bool]:
        """How many changes there were, and whether a step is running."""
        changes, running, _ = _HEAD.unpack_from(self._memory)
        return changes, bool(running)

    def step(self) -> Mapping[str, Any]:
        """The last step of a child that is dead."""
        _, _, length = _HEAD.unpack_from(self._memory)
        return step_of(self._memory[_HEAD.size : _HEAD.size + length])


def words_of(step: Mapping[str, Any]) -> str:
    """A step as JSON, in ASCII."""
    words = _ENCODER.encode(step)
    if len(words) > _SIZE - _HEAD.size:  # kwargs of that size name no run
        words = json.dumps({**step, "kwargs": None})
    return words


def step_of(words: str | bytes) -> Mapping[str, Any]:
    """The step that :func:`words_of` was told of; a parse where they are torn, or none."""
    try:
        step = json.loads(words)
    except ValueError:
        step = None
    return step if isinstance(step, dict) and "doing" in step else {"doing": "parsing"}
