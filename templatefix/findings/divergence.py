"""The two sides of a divergence, cut to what a reader needs."""

from __future__ import annotations

from templatefix.findings.finding import Divergence, Side
from templatefix.replay.run import Comparison

#: Characters of common text shown before a divergence, characters and ids shown after it.
BEFORE, AFTER, IDS = 40, 60, 8


def divergence_of(comparison: Comparison) -> Divergence:
    """Where the next prompt leaves the stream, with some text and the ids on both sides."""
    stream, prompt, at = comparison.before.stream, comparison.after.prompt, comparison.characters
    before = stream[max(0, at - BEFORE) : at]
    ours = comparison.before.stream_ids[comparison.reuse : comparison.reuse + IDS]
    theirs = comparison.after.prompt_ids[comparison.reuse : comparison.reuse + IDS]
    return Divergence(
        comparison.reuse,
        at,
        Side(before, stream[at : at + AFTER], tuple(ours)),
        Side(before, prompt[at : at + AFTER], tuple(theirs)),
    )
