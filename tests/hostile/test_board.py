"""What a forked child is doing, as its parent sees it."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.worker.board import Board

FIRST: dict[str, Any] = {
    "doing": "rendering",
    "scenario": "plain-chat",
    "kwargs": {"a": 1},
    "turn": 1,
}
LATER = [
    {**FIRST, "turn": 2},
    {**FIRST, "turn": None},
    {**FIRST, "scenario": "tool-rounds"},
    {**FIRST, "doing": "compiling", "scenario": None, "kwargs": None},
    {**FIRST, "kwargs": {"a": 2}},
    {**FIRST, "kwargs": {"b": 1}},
    {**FIRST, "kwargs": {"a": 1, "b": 1}},
    {**FIRST, "kwargs": {}},
    {**FIRST, "kwargs": None},
]


@pytest.mark.parametrize("later", LATER)
def test_the_last_step_is_shown_whatever_it_shares_with_the_one_before(
    later: dict[str, Any],
) -> None:
    board = Board()
    for step in (FIRST, later, FIRST, later):
        board.begin(**step)
        assert board.step() == step
        assert board.look()[1]
        board.end()
        assert board.step() == step
        assert not board.look()[1]
    assert board.look()[0] == 8


def test_equal_values_that_are_spelled_otherwise_are_told_apart() -> None:
    board = Board()
    board.begin(**FIRST)
    board.begin(**{**FIRST, "kwargs": {"a": True}})
    assert board.step()["kwargs"]["a"] is True


@pytest.mark.parametrize("name", ["x" * 100_000, "\u20ac" * 100_000, 'a "name"\n'])
def test_names_and_kwargs_of_any_length_fit_on_the_board(name: str) -> None:
    board = Board()
    board.begin("rendering", name, {"a": name}, 1)
    step = board.step()
    assert (step["doing"], step["turn"]) == ("rendering", 1)
    assert step["scenario"] == name[:500]
    assert step["kwargs"] == ({"a": name} if len(name) < 500 else None)
