"""What is handed to a worker at a time: a target, or each of the files that a directory holds."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.errors import TargetError
from templatefix.source import SourceOptions, no_template, parts
from templatefix.worker import cores

#: Fewer are done by one worker: another would not have begun before they are done.
HANDFUL = 4


@dataclass(frozen=True)
class Unit:
    """``part`` is one of a directory's, ``fault`` why one of them cannot be looked into.
    ``last``: the target has no more."""

    part: str | None = None
    fault: TargetError | None = None
    last: bool = True


def units(target: str, source: SourceOptions) -> list[Unit]:
    """A target as a whole, or all that a search of it finds."""
    found = parts(target, source)
    if not found:
        return [Unit()]
    return [
        Unit(fault=each, last=number == len(found))
        if isinstance(each, TargetError)
        else Unit(str(each), last=number == len(found))
        for number, each in enumerate(found, start=1)
    ]


class Emptiness:
    """Finds the directories that hold no template, although they hold files that could."""

    def __init__(self) -> None:
        self._found = 0

    def after(self, target: str, unit: Unit, outcomes: int) -> TargetError | None:
        """The error to tell after a unit that came to so many outcomes."""
        self._found += outcomes
        if not unit.last:
            return None
        found, self._found = self._found, 0
        return no_template(target) if unit.part is not None and not found else None


def crew_size(jobs: int | None, units: int) -> int:
    """How many workers there are for so many units: as asked for, else one for each core."""
    if jobs is None:
        jobs = cores() if units > HANDFUL else 1
    return max(1, min(jobs, units))
