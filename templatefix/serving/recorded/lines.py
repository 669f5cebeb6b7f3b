"""The lines of a recording, however long it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from templatefix.errors import TargetError

#: A longer line is skipped: it cannot be a request that a server has answered. In bytes.
LONGEST = 64 * 2**20

_BOM = b"\xef\xbb\xbf"


@dataclass
class Recording:
    """A file of requests, one a line. ``stdin`` stands in for the file named ``-``."""

    name: str
    stdin: IO[bytes] | None = None

    @property
    def label(self) -> str:
        """What reports and errors call it."""
        return "<stdin>" if self.name == "-" else self.name

    def expect_readable(self) -> None:
        """Raises ``TargetError`` where there is nothing to read."""
        if self.name != "-":
            with self._open():
                pass

    def lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Each line with its number from 1 on; None for one that is too long.

        Raises ``TargetError`` where the file cannot be read, or standard input has been before.
        """
        if self.name != "-":
            with self._open() as file:
                yield from self._numbered(file)
            return
        stream, self.stdin = self.stdin, None
        if stream is None:
            raise TargetError(
                self.label,
                "the recording on standard input was read to its end for another template",
                "name a file instead",
            )
        yield from self._numbered(stream)

    def _open(self) -> IO[bytes]:
        try:
            return Path(self.name).open("rb")
        except OSError as error:
            reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
            raise TargetError(self.label, f"cannot be read: {reason}", "check the path") from error

    def _numbered(self, stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
        number = 0
        try:
            while line := stream.readline(LONGEST + 1):
                number += 1
                if number == 1:
                    line = line.removeprefix(_BOM)
                whole = len(line) <= LONGEST
                while len(line) > LONGEST and not line.endswith(b"\n"):
                    line = stream.readline(LONGEST + 1)
                yield number, line if whole else None
        except OSError as error:
            message = f"{self.label} cannot be read beyond line {number}: {error.strerror}"
            raise TargetError(self.label, message, "check the path") from error
