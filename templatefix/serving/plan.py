"""What a server is started with: values only, whatever form they are printed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from templatefix.findings.outcome import Verdict
from templatefix.report.json_report import to_json

#: vLLM's releases that the lines are written for, and the one whose parser has read them.
WRITTEN_FOR, CHECKED_WITH = ("0.32", "0.33"), "0.32.0"

#: A switch, a text, or a JSON object.
FlagValue = Literal[True] | str | Mapping[str, Any]

CONFIG_FLAG = "--kv-transfer-config"
KWARGS_FLAG = "--default-chat-template-kwargs"


@dataclass(frozen=True)
class File:
    """A file that the server reads: ``purpose`` says which variable names it."""

    name: str
    purpose: str
    text: str


@dataclass(frozen=True)
class Beside:
    """A command that has to run as well, with the variables that it needs."""

    purpose: str
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Warned:
    """Where reuse ends early, or a flag does not count: why, and what to do instead.

    ``kind`` is a stable name; ``instead`` are the ways out, of which one does.
    """

    kind: str
    reason: str
    instead: tuple[str, ...] = ()


@dataclass(frozen=True)
class Serving:
    """A ``vllm serve`` command and all that it needs.

    ``flags`` are in the order in which they are printed. ``parsers`` are the reasoning and the
    tool parser; ``renderer`` is the mode of a renderer that is not Jinja, unless the command
    switches it off; ``verdict`` is that of the template's check, None where none was made.
    """

    model: str
    flags: tuple[tuple[str, FlagValue], ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    beside: tuple[Beside, ...] = ()
    warnings: tuple[Warned, ...] = ()
    notes: tuple[str, ...] = ()
    parsers: tuple[str | None, str | None] = (None, None)
    renderer: str | None = None
    verdict: Verdict | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The command's words, unquoted."""
        words = ["vllm", "serve", self.model]
        for name, value in self.flags:
            words += [name] if value is True else [name, flag_text(value)]
        return tuple(words)

    def with_flag(self, name: str, value: FlagValue) -> Serving:
        """The same command with another value for one of its flags."""
        return replace(
            self, flags=tuple((each, value if each == name else old) for each, old in self.flags)
        )


def flag_text(value: str | Mapping[str, Any]) -> str:
    """A flag's value as one word."""
    return value if isinstance(value, str) else to_json(value, indent=None)
