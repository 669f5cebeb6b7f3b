"""A replayed conversation told in figures: what of every prompt the server had in its cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TurnRow:
    """Request ``turn`` (1-based) in tokens.

    The last six compare the stream of the request before with this prompt; they are None for
    the first request. ``history_tokens`` are those of the prompt before what is new in it,
    ``recomputed_tokens`` those of them that the server holds, but not where the prompt has them.
    """

    turn: int
    prompt_tokens: int
    stream_tokens: int | None
    previous_stream_tokens: int | None
    reuse_tokens: int | None
    hit_tokens: int | None
    ideal_tokens: int | None
    history_tokens: int | None = None
    recomputed_tokens: int | None = None


@dataclass(frozen=True)
class RunOutcome:
    """One conversation in one mode, with one client and one replay form.

    ``completion`` says where the completions come from: ``training-view``, ``dialect``,
    ``markers``, ``given``, ``server`` or ``unknown``. ``lost_to`` is ``client`` where the loss is
    the client's choice. ``requested`` marks a conversation that the user gave. ``left_out``: all
    that it loses is reasoning that the policy leaves out of history.
    """

    id: str
    core: bool
    kwargs: Mapping[str, Any]
    client: str
    replay: str
    scenario: str
    preserving: bool | None
    lost_to: str | None
    completion: str
    turns: tuple[TurnRow, ...]
    requested: bool = False
    left_out: bool = False
