"""What a forked child is doing, in memory that the parent sees: no message is sent for a step.

A parent that woke for each of a template's hundred renderings would cost more than the limits do.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from operator import is_
from typing import Any

from templatefix.limits import Doing

#: Numbers at the board's beginning: how many times it was changed, which is odd while a step is
#: running, the step's turn, and the length of the words that say the rest of it.
_CHANGES, _TURN, _LENGTH = range(3)
_WORDS = 3 * 8
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
        self._numbers = memoryview(self._memory).cast("q")
        self._changes = 0
        self._doing: Doing | None = None
        self._scenario: str | None = None
        self._kwargs: Kwargs = None
        self._spelled = "null"

    def begin(self, doing: Doing, scenario: str | None, kwargs: Kwargs, turn: int | None) -> None:
        """Show a step. Most of a template's differ from the one before in nothing but the turn."""
        numbers = self._numbers
        alike = kwargs is self._kwargs or _are_alike(kwargs, self._kwargs)
        if not alike or doing != self._doing or scenario != self._scenario:
            if not alike:
                self._kwargs, self._spelled = kwargs, spell(kwargs)
            self._doing, self._scenario = doing, scenario
            words = words_of(doing, scenario, self._spelled, None).encode("ascii")
            self._memory[_WORDS : _WORDS + len(words)] = words
            numbers[_LENGTH] = len(words)
        numbers[_TURN] = _NO_TURN if turn is None else turn
        self._changes = numbers[_CHANGES] = (self._changes + 1) | 1

    def end(self) -> None:
        """No step is running; the words of the last one stay until the next."""
        self._changes = self._numbers[_CHANGES] = (self._changes | 1) + 1

    def look(self) -> tuple[int, bool]:
        """How many changes there were, and whether a step is running."""
        changes = self._numbers[_CHANGES]
        return changes, changes % 2 == 1

    def step(self) -> Mapping[str, Any]:
        """The last step of a child that is dead."""
        turn, length = self._numbers[_TURN], self._numbers[_LENGTH]
        step = step_of(self._memory[_WORDS : _WORDS + length])
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
