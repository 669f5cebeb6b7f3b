"""Repairs that have to be asked for: which codes have one, and why the others have none."""

from __future__ import annotations

from collections.abc import Sequence

from templatefix.patching.fixes.mend import FIXERS, Mended, Mending, mend
from templatefix.rules import RULES

__all__ = ["FIXERS", "Mended", "Mending", "Unfixable", "codes", "mend"]

#: Why codes, or all that begin alike, have no repair of this kind: the longest that fits counts.
_WHY = {
    "TF0": "suppressions are comments that their author has to mend",
    "TF1": "losses of reuse are repaired without being asked for",
    "TF206": "the template's author refuses that order on purpose, and what the model was trained "
    "to see in its place is not known: let the client send another order",
    "TF3": "what a server's parser loses no template can print again",
    "TF4": "it is a hazard that no run has shown, so that no repair of it can be proven",
    "TF5": "it is a fact about the model's server, which no template changes",
    "TF601": "what a template is for cannot be told from what it does too much of",
    "TF602": "a template that reaches behind its values is to be mistrusted, not mended",
    "TF9": "there is no template to repair",
}


class Unfixable(Exception):
    """A code that cannot be asked for; the message says why."""


def codes(asked: Sequence[str]) -> tuple[str, ...]:
    """The codes that are meant: each by itself, or all that can be fixed by what they begin with.

    Raises :class:`Unfixable`.
    """
    found: list[str] = []
    for each in asked:
        fixable = [code for code in FIXERS if code.startswith(each)]
        if not fixable:
            raise Unfixable(_why_not(each))
        found += fixable
    return tuple(dict.fromkeys(found))


def _why_not(asked: str) -> str:
    known = f"can be fixed: {', '.join(sorted(FIXERS))}"
    if asked not in RULES and not any(code.startswith(asked) for code in RULES):
        return f"no rule has the code {asked!r}; {known}"
    reason = max((each for each in _WHY if asked.startswith(each)), key=len, default="")
    why = _WHY.get(reason, "no repair of it is known")
    return f"{asked} has no fix: {why}; {known}"
