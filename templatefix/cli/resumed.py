"""A file of JSON lines that is gone on with: what is in it is not made again.

New lines are appended as they come, so that whatever ends the run loses none of them. When the run
is over, the file has the lines of the run in its order, as if it had been made in one go; those of
targets that this run does not name come after them.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Any

from templatefix.cli.endings import Ending
from templatefix.cli.lines import AS_THEY_ARE, write_line
from templatefix.errors import TargetError
from templatefix.findings.finding import SEVERITIES
from templatefix.report.edition import READ_BUT_BROKEN
from templatefix.report.json_lines import BEGINNING, parse_line
from templatefix.source.links import followed
from templatefix.worker import Content

#: A pipe without a writer would have to be waited for; Windows has none that are files.
_AT_ONCE: int = getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class _Line:
    """Where a line is in the file, what it says of, and how it ends a run."""

    begin: int
    length: int
    target: str
    ending: Ending


#: A template under certain options: its target, the options' hash, and its content.
_Key = tuple[str, str, Content]


class ResumedLines(contextlib.AbstractContextManager["ResumedLines"]):
    """The file while it is gone on with. Raises ``TargetError`` for one that is something else."""

    def __init__(self, name: str, targets: Iterable[str]) -> None:
        self.name = name
        self._targets = frozenset(targets)
        self._lines: dict[_Key, _Line] = {}
        self._contents: dict[tuple[str, str, str | None], list[Content]] = defaultdict(list)
        self._others: list[_Line] = []
        self._order: list[_Line] = []
        self._added = 0
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | _AT_ONCE | AS_THEY_ARE, 0o666)
        except OSError as error:
            raise self._unusable(f"cannot be written: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a device may have no end
            os.close(descriptor)
            raise self._unusable("is not a regular file")
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            self._lock()
            self._end = self._read()
            self._file.truncate(self._end)
        except BaseException:
            self._file.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, traceback: object
    ) -> None:
        try:
            if fault is None:
                self._tidy()
        finally:
            self._file.close()

    @property
    def summary(self) -> str:
        """How many lines this run has, and how many of them were there, after the file's name."""
        lines, known = len(self._order), len(self._order) - self._added
        reports = "the report of 1 template" if lines == 1 else f"the reports of {lines} templates"
        return f": {reports}, {known} of them known before"

    def known(self, target: str, options: str, part: str | None) -> tuple[Content, ...]:
        """The contents that need not be checked again, of a target or a part of it."""
        return tuple(self._contents.get((target, options, part), ()))

    def keep(self, target: str, options: str, content: Content) -> Ending:
        """A line that is there already is the next one of this run."""
        line = self._lines[(target, options, content)]
        self._order.append(line)
        return line.ending

    def add(self, line: bytes) -> None:
        self._file.seek(self._end)
        write_line(self._file.fileno(), self.name, line)
        self._order.append(_Line(self._end, len(line), "", Ending()))
        self._end += len(line)
        self._added += 1

    def _lock(self) -> None:
        with contextlib.suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                hint = "wait for it, or name another file"
                raise TargetError(self.name, "another run is at work on it", hint) from None
            except OSError:
                return  # not every file system has locks

    def _read(self) -> int:
        """Index what is there; returns where it ends: a last line that is torn does not count."""
        begin = 0
        with os.fdopen(os.dup(self._file.fileno()), "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n") and _is_torn(line):
                    return begin
                try:
                    self._index(parse_line(line), begin, len(line))
                except (ValueError, KeyError, TypeError, RecursionError):
                    raise self._unusable(f"line {number} is not one of ours") from None
                begin += len(line)
        return begin

    def _index(self, document: dict[str, Any], begin: int, length: int) -> None:
        target, content = str(document["target"]), document["content_sha256"]
        line = _Line(begin, length, target, _ending(document))
        if target not in self._targets:
            self._others.append(line)
            return
        if content is None or line.ending.unusable:
            return  # what failed for reasons of its own may go well now
        options = str(document["options_sha256"])
        known = Content(str(document["file"]), document["template_name"], str(content))
        key = target, options, known
        if key not in self._lines:
            for part in (None, known.display, *map(str, PurePath(known.display).parents)):
                self._contents[(target, options, part)].append(known)
        self._lines[key] = line

    def _tidy(self) -> None:
        """Put the lines into order, unless they are."""
        wanted = self._order + self._others
        at = 0
        for line in wanted:
            if line.begin != at:
                break
            at += line.length
        else:
            if at == self._end:
                return
        file = followed(self.name)
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name[:40]}.", dir=file.parent)
        try:
            with os.fdopen(descriptor, "wb") as ordered:
                _copy(self._file, ordered, wanted)
            os.chmod(name, file.stat().st_mode & 0o777)
            if os.name == "nt":  # no file that is open is replaced there
                self._file.close()
            os.replace(name, file)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(name)
            if isinstance(error, OSError):
                raise self._unusable(f"cannot be written: {error.strerror}") from error
            raise

    def _unusable(self, message: str) -> TargetError:
        return TargetError(self.name, message, "name a file of check --output-format jsonl")


def _copy(source: IO[bytes], target: IO[bytes], lines: Iterable[_Line]) -> None:
    for line in lines:
        source.seek(line.begin)
        target.write(source.read(line.length))


def _is_torn(line: bytes) -> bool:
    """Whether it may be the beginning of a line of ours; anything else is somebody's file."""
    return line.startswith(BEGINNING) or BEGINNING.startswith(line)


def _ending(document: dict[str, Any]) -> Ending:
    """As ``endings.ending`` has it of the report that the line was made of."""
    error, recorded = document["error"], document["recorded"]
    severities = [str(finding["severity"]) for finding in document["findings"]]
    return Ending(
        unusable=error is not None and error["code"] not in READ_BUT_BROKEN,
        broken=error is not None,
        gravest=max(severities, key=SEVERITIES.index, default=None),
        evaluated=document["verdict"] in ("preserving", "breaks")
        or (recorded is not None and recorded["continued"] > 0),
    )
