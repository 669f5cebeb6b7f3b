"""Ours beside hand-made training templates: the same originals, the same conversations."""

from __future__ import annotations

import pytest

from tests.packages import or_skip
from tests.peers import ORIGINALS, Pair, pair

pytestmark = pytest.mark.network  # each original is repaired first, which takes a while


@pytest.fixture(params=ORIGINALS)
def found(request: pytest.FixtureRequest) -> Pair:
    return or_skip(lambda: pair(request.param))


def test_ours_breaks_nowhere_where_the_original_does(found: Pair) -> None:
    ours = found.repaired.text
    assert ours is not None, found.repaired.attempts[-1]
    assert found.broken(found.bench.subject.template.text)
    assert not found.broken(ours)


def test_ours_keeps_newlines_that_the_hand_made_template_of_qwen3_loses() -> None:
    found = or_skip(lambda: pair("qwen3"))
    assert found.repaired.text is not None
    ours, theirs = found.keeps(found.repaired.text), found.keeps(found.theirs)
    assert list(ours.values()) == [True, True, True]
    assert list(theirs.values()) == [False, False, False]


def test_the_hand_made_template_of_qwen3_breaks_core_comparisons() -> None:
    found = or_skip(lambda: pair("qwen3"))
    assert found.broken(found.theirs)
