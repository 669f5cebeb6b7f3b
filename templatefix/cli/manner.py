"""How a check is run: what no settings file may say, since it may have come with a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from templatefix.limits import Limits
from templatefix.serving.options import ServerOptions
from templatefix.source.options import NETWORK_TIMEOUT


@dataclass(frozen=True)
class Manner:
    """``write_baseline`` is where all findings are accepted; with ``hook`` what is no chat template
    is none of ours. ``jobs`` is the number of workers (None: one for each core), ``executor`` the
    address of others, and ``resume`` the file of JSON lines that is gone on with.
    ``network_timeout`` are the seconds that a target's files may take from the hub.
    """

    write_baseline: Path | None = None
    hook: bool = False
    server: ServerOptions | None = None
    limits: Limits = field(default_factory=Limits)
    jobs: int | None = None
    executor: str | None = None
    resume: str | None = None
    network_timeout: float = NETWORK_TIMEOUT
