"""What the loss costs in longer conversations than the one that was measured, and the repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from templatefix.findings.run_outcome import TurnRow
from templatefix.report.figure.reuse import Panel

#: The lengths, in tokens at the end, and the turns of the conversations in the table.
CONTEXTS, TURNS = (8_000, 32_000, 128_000), (8, 32, 128)

#: ``answer``: each time what the last turn left; ``head``: each time all that follows one place;
#: ``mixed``: now this, now that, from which nothing is concluded.
Growth = Literal["answer", "head", "mixed"]


@dataclass(frozen=True)
class Cost:
    """One panel's. Figures a turn are means over the turns after the first one.

    ``again`` tokens a turn are computed again, in full blocks; ``prefilled`` are all that the
    server computes, ``prefilled_patched`` with the repair, whose prompts hold ``extra`` more tokens
    for each past answer. ``share`` is the part of a turn's tokens that is computed again next time.
    """

    panel: Panel
    again: float
    prefilled: float
    prefilled_patched: float | None
    extra: float | None
    growth: Growth
    share: float

    def tokens(self, context: int, turns: int) -> int | None:
        """Tokens that are computed again in a conversation of ``turns`` equal turns that ends with
        ``context`` tokens; None where that cannot be told."""
        if self.growth == "head":
            return round(self.share * context * (turns - 1) / 2)
        if self.growth == "answer":
            return round(self.share * context / turns * (turns - 1))
        return None


def cost(panel: Panel) -> Cost | None:
    """The cost of a panel that computes something again, else None."""
    rows = panel.shipped[1:]
    if not rows or not panel.again:
        return None
    patched = panel.patched[1:]
    growth, share = _growth(panel.shipped)
    return Cost(
        panel,
        panel.again / len(rows),
        _mean(rows),
        _mean(patched) if patched else None,
        (patched[-1].prompt_tokens - rows[-1].prompt_tokens) / len(rows) if patched else None,
        growth,
        share,
    )


def _mean(rows: Sequence[TurnRow]) -> float:
    return sum(row.prompt_tokens - (row.hit_tokens or 0) for row in rows) / len(rows)


def _growth(rows: Sequence[TurnRow]) -> tuple[Growth, float]:
    """How the loss grows, from the turns after the second: their turn before had a history."""
    pairs = [(rows[i - 1], rows[i]) for i in range(2, len(rows))]
    if not pairs:
        return "mixed", 0.0
    lost = [(now.history_tokens or 0) - (now.reuse_tokens or 0) for _, now in pairs]
    earlier = [(now.reuse_tokens or 0) < (then.history_tokens or 0) for then, now in pairs]
    if all(earlier):
        whole = sum(now.history_tokens or 0 for _, now in pairs)
        return "head", sum(lost) / max(1, whole)
    grown = [(now.history_tokens or 0) - (then.history_tokens or 0) for then, now in pairs]
    # Where a turn shrinks what came before, another one has lost it already.
    if any(earlier) or min(grown) <= 0 or min(lost) == 0:
        return "mixed", 0.0
    return "answer", sum(lost) / sum(grown)
