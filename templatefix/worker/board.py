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

from templatefix.limits import Doing

#: How many times the board was changed, whether a step is running, its turn, and the length of the
#: words that say the rest of it.
_HEAD = struct.Struct(">QBiI")
_NO_TURN = -1
_SIZE = 65536
#: Characters of kwargs and of a scenario's name that are shown; each of the latter may take six.
_MOST_KWARGS, _MOST_NAME = 60_000, 500
_ENCODER = json.JSONEncoder(default=str)

Kwargs = Mapping[str, Any] | None


class Board:
    """Made before the fork; the child writes, as a listener to its limits, and the parent reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self._changes = 0
        self._turn = _NO_TURN
        self._length = 0
        self._said: tuple[Doing | None, str | None] = (None, None)
        self._kwargs: Kwargs = None
        self._spelled = "null"

    def begin(self, doing: Doing, scenario: str | None, kwargs: Kwargs, turn: int | None) -> None:
        """Show a step. Most of a template's differ from the one before in nothing but the turn."""
        alike = kwargs is self._kwargs or _are_alike(kwargs, self._kwargs)
        said = doing, scenario
        if not alike:
            self._kwargs, self._spelled = kwargs, spell(kwargs)
        if not alike or said != self._said:
            self._said = said
            words = words_of(doing, scenario, self._spelled, None).encode("ascii")
            self._length = len(words)
            self._memory[_HEAD.size : _HEAD.size + self._length] = words
        self._changes += 1
        self._turn = _NO_TURN if turn is None else turn
        _HEAD.pack_into(self._memory, 0, self._changes, True, self._turn, self._length)

    def end(self) -> None:
        """No step is running; the words of the last one stay until the next."""
        self._changes += 1
        _HEAD.pack_into(self._memory, 0, self._changes, False, self._turn, self._length)

    def look(self) -> tuple[int, bool]:
        """How many changes there were, and whether a step is running."""
        changes, running, _, _ = _HEAD.unpack_from(self._memory)
        return changes, bool(running)

    def step(self) -> Mapping[str, Any]:
        """The last step of a child that is dead."""
        _, _, turn, length = _HEAD.unpack_from(self._memory)
        step = step_of(self._memory[_HEAD.size : _HEAD.size + length])
        return {**step, "turn": None if turn == _NO_TURN else turn}


def _are_alike(ours: Kwargs, theirs: Kwargs) -> bool:
    """Whether kwargs are spelled alike, for certain."""
    if not ours or not theirs:
        return ours == theirs
    # Values that are equal may be spelled differently: True and 1.
    return list(ours) == list(theirs) and all(map(is_, ours.values(), theirs.values()))


def spell(kwargs: Kwargs) -> str:
    """Kwargs as JSON, in ASCII; those that are longer than the board name no run."""
    spelled = _ENCODER.encode(kwargs)
    return spelled if len(spelled) <= _MOST_KWARGS else "null"


def words_of(doing: Doing, scenario: str | None, kwargs: str, turn: int | None) -> str:
    """A step as JSON, in ASCII; ``kwargs`` are spelled already."""
    name = "null" if scenario is None else json.dumps(scenario[:_MOST_NAME])
    turn_ = "null" if turn is None else turn
    return f'{{"doing": "{doing}", "scenario": {name}, "kwargs": {kwargs}, "turn": {turn_}}}'


def step_of(words: str | bytes) -> Mapping[str, Any]:
    """The step that :func:`words_of` was told of; a parse where they are torn, or none."""
    try:
        step = json.loads(words)
    except ValueError:
        step = None
    return step if isinstance(step, dict) and "doing" in step else {"doing": "parsing"}
