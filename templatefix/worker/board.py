"""What a forked child is doing, in memory that the parent sees: no message is sent for a step.

A parent that woke for each of a template's hundred renderings would cost more than the limits do.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Mapping
from operator import is_
from typing import Any

#: How many times the board was changed, whether a step is running, its turn, and the length of the
#: words that say the rest of it.
_HEAD = struct.Struct(">QBiI")
_NO_TURN = -1
_SIZE = 65536
_ENCODER = json.JSONEncoder(default=str)


class Board:
    """Made before the fork; the child writes, the parent reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self._changes = 0
        self._turn = _NO_TURN
        self._length = 0
        self._last: Mapping[str, Any] = {"doing": None}

    def write(self, step: Mapping[str, Any] | None) -> None:
        """A step begins, or ends (None): its words stay until the next one."""
        self._changes += 1
        if step is not None:
            turn = step["turn"]
            self._turn = _NO_TURN if turn is None else turn
            if not _differ_in_turn(step, self._last):
                words = words_of({**step, "turn": None}).encode("ascii")
                self._length = len(words)
                self._memory[_HEAD.size : _HEAD.size + self._length] = words
                self._last = step
        running = step is not None
        _HEAD.pack_into(self._memory, 0, self._changes, running, self._turn, self._length)

    def look(self) -> tuple[int, bool]:
        """How many changes there were, and whether a step is running."""
        changes, running, _, _ = _HEAD.unpack_from(self._memory)
        return changes, bool(running)

    def step(self) -> Mapping[str, Any]:
        """The last step of a child that is dead."""
        _, _, turn, length = _HEAD.unpack_from(self._memory)
        step = step_of(self._memory[_HEAD.size : _HEAD.size + length])
        return {**step, "turn": None if turn == _NO_TURN else turn}


def _differ_in_turn(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two steps differ in nothing else: most of a template's do."""
    if one["doing"] != other["doing"] or one["scenario"] != other["scenario"]:
        return False
    ours, theirs = one["kwargs"], other["kwargs"]
    if not ours or not theirs:
        return ours is theirs or ours == theirs
    # Values that are equal may be spelled differently: True and 1.
    return list(ours) == list(theirs) and all(map(is_, ours.values(), theirs.values()))


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
