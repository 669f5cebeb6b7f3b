"""A fold tells prompts by how they end, and some end in nothing that was printed for the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from templatefix.patching.ladder.fold_place import Place
from templatefix.patching.ladder.fold_rules import _Case, _Change, _rules
from templatefix.patching.ladder.fold_shape import _silent
from templatefix.patching.proposals.text import begins, ends

#: Behind a tool's result, gemma-4's newest template prints nothing, or opens a thought.
TAILS = ("<turn>model\n", "", "<thought>\n")


def cases(*tails: str) -> list[_Case]:
    fields = (True, True, True, False)
    return [
        _Case(fields, tail, "extends", _Change("swap", str(number), "x"))
        for number, tail in enumerate(tails)
    ]


def test_what_ends_in_nothing_is_told_last_and_without_a_condition() -> None:
    rules = list(_rules(cases(*TAILS)))
    assert [rule.before for rule in rules] == ["0", "2", "1"]
    assert "fold_prompt[-12:] == '<turn>model\\n'" in rules[0].condition
    assert "fold_prompt" not in rules[2].condition


def test_a_tail_that_ends_another_is_told_after_it() -> None:
    rules = list(_rules(cases("b", "ab", "c")))
    assert [rule.before for rule in rules] == ["1", "2", "0"]


@pytest.mark.parametrize("text", ["", "a", "\n\n"])
def test_the_conditions_on_an_end_and_a_beginning_are_those_of_python(text: str) -> None:
    for content in ("", "a", "b\n\n", "ab", "\n\na"):
        names = {"content": content, "true": True}
        assert eval(ends("content", text), names) == content.endswith(text)
        assert eval(begins("content", text), names) == content.startswith(text)


def places(**quiet: bool) -> list[Place]:
    empty = Place((), None, {}, "", "", False, "opened", None)
    return [
        replace(empty, prompt="<user>" + tail, bare="<user>", quiet=silent)
        for tail, silent in quiet.items()
    ]


def test_prompts_that_end_in_nothing_are_told_by_how_the_others_end() -> None:
    assert _silent(places(a=False, b=True)) == ends("fold_prompt", "b")
    assert _silent(places(a=False, **{"": True})) == "not " + ends("fold_prompt", "a")
    assert _silent(places(**{"": True})) == "true"
