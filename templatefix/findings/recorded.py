"""What recorded traffic comes to under one template: plain values for reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from templatefix.findings.repair import RepairStatus

#: Who makes the server lose cached tokens. ``tokenizer``: the same text, in other tokens.
Owner = Literal["template", "parser", "tokenizer", "client"]

OWNERS: tuple[Owner, ...] = ("template", "parser", "tokenizer", "client")


@dataclass(frozen=True)
class TrafficLoss:
    """Tokens that were lost in one way, over all recorded requests.

    ``what`` is a finding code, or for the client what it did: ``dropped-reasoning``,
    ``changed-system``, ``changed-tools``, ``reordered-tools``, ``changed-kwargs``,
    ``edited-history``, ``truncated-history``, ``reformatted-answer``. ``line`` and ``column`` are
    the guilty place in the template. ``example`` is a line of the recording. ``shared_tokens`` are
    those of ``lost_tokens`` that the template would lose as well if the client sent all back.
    """

    owner: Owner
    what: str
    lost_tokens: int
    requests: int
    example: int
    line: int | None = None
    column: int | None = None
    shared_tokens: int = 0


@dataclass(frozen=True)
class SkippedLine:
    """A line that could not be read, and why."""

    line: int
    why: str


@dataclass(frozen=True)
class SetAside:
    """Requests that could be read but not replayed: why, how many, and the first one's line."""

    why: str
    requests: int
    example: int


@dataclass(frozen=True)
class Recovery:
    """What the repaired template would have changed for the recorded conversations, in tokens.

    ``recovered_tokens`` of the lost ones can be reused with it; ``saved_prefill_tokens`` is by how
    many the prompts' computed tokens shrink (a repaired prompt may be longer).
    """

    policy: str
    status: RepairStatus
    recovered_tokens: int = 0
    saved_prefill_tokens: int = 0


@dataclass(frozen=True)
class RecordedTraffic:
    """A recording, replayed.

    ``requests`` were replayed; ``continued`` of them continue an earlier one, and only these can
    reuse or lose anything here. ``branches`` continue one that another request continued before.
    ``closed`` conversations were let go to bound the memory: what continued one of them later
    counts as a new conversation. ``completions`` says how often a stream that was compared is
    known from ``ids``, from ``text``, or is ``unknown`` beyond its prompt; ``cut`` counts those
    that ended without a stop token. ``reused_tokens`` and ``ideal_tokens`` count full blocks.
    ``other_prompts`` were recorded with prompt ids that this template does not print.
    """

    file: str
    lines: int
    requests: int
    conversations: int
    continued: int
    branches: int
    closed: int
    completions: Mapping[str, int]
    cut: int
    prompt_tokens: int
    reused_tokens: int
    ideal_tokens: int
    losses: tuple[TrafficLoss, ...] = ()
    skipped_lines: int = 0
    skipped: tuple[SkippedLine, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    other_prompts: int = 0
    recovery: Recovery | None = None

    def lost_to(self, owner: Owner) -> int:
        """Tokens lost to one owner."""
        return sum(loss.lost_tokens for loss in self.losses if loss.owner == owner)

    @property
    def lost_tokens(self) -> int:
        """Cached tokens that could not be reused."""
        return self.ideal_tokens - self.reused_tokens
