"""Decisions: which text an answer is printed with, told by as few tests as will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class Undecided(Exception):
    """Two answers that no test tells apart are printed otherwise."""


@dataclass(frozen=True)
class Choice:
    """A Jinja test, and what follows where it holds and where it does not."""

    test: str
    then: Tree
    other: Tree


#: A text, or a choice between two.
Tree = str | Choice

#: The outcome of each test for one kind of answer, and what is printed for it.
Case = tuple[Mapping[str, bool], str]


def decide(cases: Sequence[Case], tests: Sequence[str]) -> Tree:
    """The smallest tree that gives each case its text; the first tests are preferred.

    What is in no case may come out either way. Raises :class:`Undecided`.
    """
    return _decided(cases, tests, frozenset(range(len(cases))), {})


def _decided(
    cases: Sequence[Case],
    tests: Sequence[str],
    left: frozenset[int],
    known: dict[frozenset[int], Tree | Undecided],
) -> Tree:
    """The tree for some of the cases; ``known`` are the trees found for others of them.

    A test that was asked already tells none of them apart, so that how they were reached is of no
    account.
    """
    if left not in known:
        try:
            known[left] = _found(cases, tests, left, known)
        except Undecided as undecided:
            known[left] = undecided
    tree = known[left]
    if isinstance(tree, Undecided):
        raise tree
    return tree


def _found(
    cases: Sequence[Case],
    tests: Sequence[str],
    left: frozenset[int],
    known: dict[frozenset[int], Tree | Undecided],
) -> Tree:
    texts = {cases[index][1] for index in sorted(left)}
    if len(texts) <= 1:
        return next(iter(texts), "")
    best: Tree | None = None
    for test in tests:
        holds = frozenset(index for index in left if cases[index][0][test])
        if not holds or holds == left:
            continue
        try:
            then, other = (_decided(cases, tests, side, known) for side in (holds, left - holds))
        except Undecided:
            continue
        found = Choice(test, then, other)
        if best is None or _size(found) < _size(best):
            best = found
    if best is None:
        raise Undecided(str(sorted(texts)))
    return best


def condition(tree: Tree) -> str:
    """A tree of ``true`` and ``false`` as a Jinja condition."""
    if isinstance(tree, str):
        return tree
    then, other = condition(tree.then), condition(tree.other)
    test, negated = tree.test, f"not {tree.test}"
    if then == "true":
        return test if other == "false" else f"({test} or {other})"
    if then == "false":
        return negated if other == "true" else f"({negated} and {other})"
    if other == "true":
        return f"({negated} or {then})"
    if other == "false":
        return f"({test} and {then})"
    return f"({then} if {test} else {other})"


def _size(tree: Tree) -> int:
    return 0 if isinstance(tree, str) else 1 + _size(tree.then) + _size(tree.other)
