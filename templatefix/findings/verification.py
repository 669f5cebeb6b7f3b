"""What driving a live server showed: the values that a report of it is made of.

All lengths are tokens. A figure that the server did not give is None; one that is only known to
lie between two numbers is a :class:`Bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from templatefix.findings.finding import Divergence

#: ``served`` is what the server renders with, ``candidate`` a template sent with each request.
Rendered = Literal["served", "candidate"]
#: What a turn's verdict rests on: token ids; lengths, where the prompt is shorter than the stream
#: before; the answer's text, looked for in the prompt; or how many blocks the server found, which
#: hides what is lost within one block.
Evidence = Literal["ids", "lengths", "text", "blocks"]

#: Whose doing it can be, beside the template's.
Owner = Literal["client", "length", "parser"]


@dataclass(frozen=True)
class Bounds:
    """A number of tokens, known to lie between two, both of them included."""

    low: int
    high: int

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def __contains__(self, tokens: object) -> bool:
        return isinstance(tokens, int) and self.low <= tokens <= self.high

    def __str__(self) -> str:
        return str(self.low) if self.exact else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class LiveTurn:
    """One request to a live server, beside what was predicted for it.

    ``reuse``, ``ideal`` and ``predicted`` are None in the first turn, which has no stream before
    it. ``cached`` is what the server found: ``local`` in its own cache, ``external`` in a store.
    ``preserving`` says whether this prompt continues the stream before it, ``lost_to`` whose doing
    it is if that does not count: the ``client`` dropped reasoning, the answer before was cut by
    ``length``, or the server's ``parser`` left whitespace before a call in the content.
    ``prompt_only`` is the prediction for a store that keeps prompts and not answers.
    """

    turn: int
    prompt: int
    completion: int
    reuse: Bounds | None = None
    ideal: int | None = None
    predicted: Bounds | None = None
    prompt_only: Bounds | None = None
    cached: int | None = None
    local: int | None = None
    external: int | None = None
    preserving: bool | None = None
    evidence: Evidence | None = None
    lost_to: Owner | None = None
    divergence: Divergence | None = None
    finish: str | None = None

    @property
    def stream(self) -> int:
        """The length of the stream that the server holds after this turn."""
        return self.prompt + self.completion

    @property
    def agrees(self) -> bool | None:
        """Whether what the server found is what was predicted; None where one is not known."""
        if self.cached is None or self.predicted is None:
            return None
        return self.cached in self.predicted

    @property
    def lost(self) -> int | None:
        """Cached tokens that this prompt could not reuse: measured, or else predicted."""
        if self.ideal is None:
            return None
        if self.cached is not None:
            return max(0, self.ideal - self.cached)
        if self.predicted is not None and self.predicted.exact:
            return max(0, self.ideal - self.predicted.low)
        return None


@dataclass(frozen=True)
class LiveRun:
    """One conversation with the server. ``fault`` says why it ended before its last turn."""

    rendered: Rendered
    client: str
    turns: tuple[LiveTurn, ...]
    notes: tuple[str, ...] = ()
    fault: str | None = None

    @property
    def compared(self) -> tuple[LiveTurn, ...]:
        """The turns whose prediction can be held against a measurement."""
        return tuple(turn for turn in self.turns if turn.agrees is not None)

    @property
    def preserving(self) -> bool | None:
        """The verdict over the turns that count; None where nothing can be said."""
        counted = [turn.preserving for turn in self.turns[1:] if turn.lost_to is None]
        if False in counted:
            return False
        return None if not counted or None in counted else True

    @property
    def agrees(self) -> bool | None:
        """Whether every prediction that could be compared came true."""
        compared = self.compared
        return all(turn.agrees for turn in compared) if compared else None

    @property
    def computed(self) -> int | None:
        """Prompt tokens that the server had to compute over the run."""
        if any(turn.cached is None for turn in self.turns):
            return None
        return sum(turn.prompt - (turn.cached or 0) for turn in self.turns)


@dataclass(frozen=True)
class Verification:
    """All runs against one server.

    ``block_size_from`` says who named the block size: ``option``, ``server`` or ``default``;
    ``stated_block_size`` is what the server's metrics say.
    ``requests`` counts what was sent, by what it was. ``unseen`` are sentences about what the
    server did not show. ``write_back`` is whether a store is expected to hold answers too;
    ``reset`` whether the local cache was emptied before each turn but the first.
    """

    url: str
    model: str
    block_size: int
    block_size_from: str
    stated_block_size: int | None
    streaming: bool
    tools: bool
    reset: bool
    write_back: bool
    runs: tuple[LiveRun, ...]
    requests: Mapping[str, int] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    fault: str | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether every prediction of every run came true; None where none could be compared."""
        known = [run.agrees for run in self.runs if run.agrees is not None]
        return all(known) if known else None

    @property
    def preserving(self) -> bool | None:
        """The verdict: the candidate's where there is one, else the served template's."""
        verdicts = [run.preserving for run in self.judged]
        if False in verdicts:
            return False
        return True if True in verdicts else None

    @property
    def judged(self) -> tuple[LiveRun, ...]:
        """The runs that the verdict is taken over."""
        candidate = tuple(run for run in self.runs if run.rendered == "candidate")
        return candidate or self.runs
