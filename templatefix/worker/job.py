"""What is asked of the child, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from templatefix.checking.options import CheckOptions
from templatefix.findings.outcome import Report
from templatefix.serving.options import ServerOptions
from templatefix.source import SourceOptions


@dataclass(frozen=True)
class Content:
    """A template of a target, by its place there and by all that its check depends on.

    ``sha256`` is that of the template and what belongs to it: see ``worker/content.py``.
    """

    display: str
    name: str | None
    sha256: str


@dataclass(frozen=True)
class Job:
    """A target to be checked, with the arguments of ``api.check_each``.

    ``given`` is what standard input holds in place of the target ``-``, in base 64, and
    ``recorded`` the name of a file of recorded requests, ``-`` for standard input itself.
    ``part`` is the one of a directory's ``source.parts`` that is checked. With ``hashed`` the
    outcomes have their contents; those in ``known`` are not checked again.
    """

    target: str
    source: SourceOptions = field(default_factory=SourceOptions)
    options: CheckOptions = field(default_factory=CheckOptions)
    given: str | None = None
    alone: bool = True
    recorded: str | None = None
    recover: bool = True
    server: ServerOptions | None = None
    part: str | None = None
    hashed: bool = False
    known: tuple[Content, ...] = ()

    @property
    def bounded(self) -> bool:
        """Whether the work has a foreseeable length: traffic and servers take what they take."""
        return self.recorded is None and self.server is None


@dataclass(frozen=True)
class Outcome:
    """What one template of a job came to; ``report`` is None where its content was known."""

    report: Report | None
    content: Content | None = None
