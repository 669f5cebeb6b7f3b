"""What a run of the program has written so far: whoever interrupts it is told."""

from __future__ import annotations

STDOUT = "standard output"

_places: dict[str, None] = {}


def note(place: str) -> None:
    """Remember that something was written there."""
    _places[place] = None


def places() -> tuple[str, ...]:
    """Files, and standard output, in the order in which they were first written to."""
    return tuple(_places)


def forget() -> None:
    """Another run begins."""
    _places.clear()
