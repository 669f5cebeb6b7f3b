"""The finding: one fault of a template, with the evidence for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
Confidence = Literal["high", "medium", "low"]

#: Severities from the mildest to the gravest.
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


def at_least(severity: Severity, threshold: Severity) -> bool:
    """Whether ``severity`` is ``threshold`` or graver."""
    return SEVERITIES.index(severity) >= SEVERITIES.index(threshold)


@dataclass(frozen=True)
class Location:
    """A span of the template's source: 1-based lines and columns, the end exclusive.

    ``role`` says what happened there: ``cause`` (a condition that flipped), ``printed-then``,
    ``printed-now`` (the outputs on both sides of a divergence) or ``source`` (a static finding).
    """

    role: str
    line: int
    column: int
    end_line: int
    end_column: int
    note: str = ""
    snippet: str = ""


@dataclass(frozen=True)
class Side:
    """One side of a divergence: the text around it and the token ids from it on.

    ``before`` is common to both sides; ``text`` begins at the divergence.
    """

    before: str
    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Divergence:
    """Where the next prompt leaves the stream: positions in tokens and in characters."""

    token_index: int
    char_index: int
    stream: Side
    prompt: Side


@dataclass(frozen=True)
class Token:
    """A token as a reader sees it; ``special`` is one that the tokenizer adds to its vocabulary.

    ``text`` is empty where the token continues the character of the one before.
    """

    id: int
    text: str
    special: bool


@dataclass(frozen=True)
class Streams:
    """The stream (first of each pair) and the next prompt (second), token by token.

    ``common`` are the last tokens that both begin with, after ``skipped`` others. ``pairs`` go from
    the divergence to the end of the history: a token that one side lacks is None there, and a pair
    of equal ones stands in both, but no longer in the same place. ``new`` are the first tokens that
    are new in the prompt. ``left_out`` counts those that are not shown of the stream and of the
    prompt.
    """

    skipped: int
    common: tuple[Token, ...]
    pairs: tuple[tuple[Token | None, Token | None], ...]
    new: tuple[Token, ...]
    left_out: tuple[int, int]


@dataclass(frozen=True)
class Fix:
    """What the user can do: a command or a kwarg, and whether it is known to help."""

    text: str
    safe: bool = True


@dataclass(frozen=True)
class Finding:
    """One fault. ``turn`` is the request that loses, 1-based; ``lost_tokens`` sums over the run.

    ``reused``, ``cached`` and ``total`` are the tokens of that turn: the longest common prefix,
    the full blocks of it that a server has, and the stream's length. In recorded traffic
    ``requests`` is how many of them show it, and ``lost_tokens`` sums over these. ``streams`` are
    the tokens around the divergence.
    """

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    message: str
    detail: str = ""
    also: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    client: str | None = None
    replay: str | None = None
    scenario: str | None = None
    turn: int | None = None
    locations: tuple[Location, ...] = ()
    lost_tokens: int | None = None
    lost_here: int | None = None
    reused: int | None = None
    cached: int | None = None
    total: int | None = None
    divergence: Divergence | None = None
    streams: Streams | None = None
    fix: Fix | None = None
    explanation: str = ""
    conversation: Mapping[str, Any] | None = None
    requests: int | None = None
    anchor: str = ""

    @property
    def line(self) -> int | None:
        """The template line to blame, 1-based."""
        return self.locations[0].line if self.locations else None

    @property
    def column(self) -> int | None:
        """The column in :attr:`line`, 1-based."""
        return self.locations[0].column if self.locations else None

    @property
    def fingerprint(self) -> str:
        """Identifies the finding across line shifts: hex digits that no line number enters."""
        snippets = [" ".join(location.snippet.split()) for location in self.locations[:1]]
        parts = (self.code, self.detail, self.anchor, *snippets)
        return hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).hexdigest()[:16]
