"""A repaired template on trial."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.patching.edits import Edit


@dataclass(frozen=True)
class Candidate:
    """A template's new text and how it came about.

    ``rung`` is the step of the ladder (1 to 5; 0 where nothing was made but fixes that were asked
    for), ``edits`` the changes to the original's source (none for a fold, which wraps it),
    ``notes`` one sentence each on what was changed and why.
    ``kwargs`` are the defaults that rung 1 bakes in.
    """

    text: str
    rung: int
    notes: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    kwargs: tuple[tuple[str, object], ...] = ()

    @property
    def size(self) -> int:
        """Characters added and removed."""
        return sum(edit.size for edit in self.edits) if self.edits else len(self.text)
