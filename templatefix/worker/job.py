"""What is asked of the child."""

from __future__ import annotations

from dataclasses import dataclass, field

from templatefix.checking.options import CheckOptions
from templatefix.serving.options import ServerOptions
from templatefix.source import SourceOptions


@dataclass(frozen=True)
class Job:
    """A target to be checked, with the arguments of ``api.check_target``.

    ``given`` is what standard input holds in place of the target ``-``, in base 64, and
    ``recorded`` the name of a file of recorded requests, ``-`` for standard input itself.
    """

    target: str
    source: SourceOptions = field(default_factory=SourceOptions)
    options: CheckOptions = field(default_factory=CheckOptions)
    given: str | None = None
    alone: bool = True
    recorded: str | None = None
    recover: bool = True
    server: ServerOptions | None = None

    @property
    def bounded(self) -> bool:
        """Whether the work has a foreseeable length: traffic and servers take what they take."""
        return self.recorded is None and self.server is None
