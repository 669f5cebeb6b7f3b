"""Where JSON lines go, each as soon as it is there: standard output, or a file."""

from __future__ import annotations

import contextlib
import os
from typing import Protocol

from templatefix.cli import written
from templatefix.cli.output import write_stdout
from templatefix.errors import TargetError

#: Windows would change the ends of lines.
AS_THEY_ARE: int = getattr(os, "O_BINARY", 0)


class Lines(Protocol):
    """Somewhere to put lines."""

    def add(self, line: bytes) -> None:
        """Write a line as a whole. Raises ``TargetError``."""


class StdoutLines:
    """Lines for whoever reads standard output."""

    def add(self, line: bytes) -> None:
        write_stdout(line.decode("utf-8"))


class FileLines(contextlib.AbstractContextManager["FileLines"]):
    """Lines in a file of their own, which is begun anew."""

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | AS_THEY_ARE
            self._descriptor = os.open(name, flags, 0o666)
        except OSError as error:
            raise _unwritable(name, error) from error

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def add(self, line: bytes) -> None:
        write_line(self._descriptor, self._name, line)


def write_line(descriptor: int, name: str, line: bytes) -> None:
    """Write a line in one go, so that an interrupt falls before or after it."""
    written.note(name)
    try:
        left = memoryview(line)
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        raise _unwritable(name, error) from error


def _unwritable(name: str, error: OSError) -> TargetError:
    return TargetError(name, f"cannot be written: {error.strerror}", "name another file")
