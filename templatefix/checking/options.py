"""What a check is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CheckOptions:
    """What a check is asked for; see the command line for each.

    ``repair_under`` are policies: what breaks is repaired under each, for reports that show it.
    """

    block_size: int = 16
    policy: str | None = None
    kwargs: Mapping[str, Any] | None = None
    conversation: Mapping[str, Any] | None = None
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    full: bool = False
    max_examples: int = 0
    seed: int = 0
    repair_under: tuple[str, ...] = ()
