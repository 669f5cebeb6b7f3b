"""Where reports go: standard output or a file, as UTF-8 whatever the locale says."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from pathlib import Path

import click

from templatefix.cli import written
from templatefix.cli.program import ClosedOutput, abandon_stdout
from templatefix.errors import TargetError
from templatefix.report.visible import visible
from templatefix.source.links import destination

#: What writing to nobody ends in; Windows has a word of its own for a pipe that is closed.
_CLOSED = (errno.EPIPE, errno.EBADF, *((errno.EINVAL,) if sys.platform == "win32" else ()))


def write_stdout(text: str) -> None:
    """Raises ClosedOutput when nobody reads, TargetError when the text cannot be written."""
    if not text:
        return
    if sys.stdout is None or sys.stdout.closed:
        raise ClosedOutput
    content = text.encode("utf-8", "backslashreplace")
    written.note(written.STDOUT)
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as error:
        if error.errno in _CLOSED:
            raise ClosedOutput from None
        abandon_stdout()
        raise TargetError("standard output", f"cannot be written: {error.strerror}") from error


def write_file(path: str, text: str | bytes) -> None:
    """Write the file as a whole or not at all. Raises TargetError."""
    file = Path(path)
    content = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    try:
        if file.exists() and not file.is_file():  # /dev/stdout, a named pipe
            file.write_bytes(content)
            return
        # A link stays a link: what it names is replaced.
        _replace(destination(file), content)
    except OSError as error:
        raise _unwritable(path, error) from error
    written.note(path)


def expect_writable(path: str, *, force: bool = True) -> None:
    """Raises ``TargetError`` where writing would fail, or would replace what nobody gave up."""
    file = Path(path)
    try:
        if file.is_dir():
            raise TargetError(path, "is a directory", "name a file in it")
        if file.exists() and not file.is_file():
            return
        if file.is_file() and not force:
            raise TargetError(path, "exists already", "give --force to replace it")
        expect_room(path, destination(file).parent)
    except OSError as error:
        raise _unwritable(path, error) from error


def expect_room(path: str, folder: Path) -> None:
    """Raises ``TargetError``, about ``path``, where no file can be made in the folder."""
    if not folder.is_dir():
        raise TargetError(path, "cannot be written: no such directory", "create it first")
    try:
        # What permissions say is not what every file system does.
        descriptor, name = tempfile.mkstemp(prefix=".templatefix.", dir=folder)
        os.close(descriptor)
        os.unlink(name)
    except OSError as error:
        raise _unwritable(path, error) from error


def tell_written(path: str, *, quiet: bool, more: str = "") -> None:
    """A line on stderr about a file or a folder that is done, which a device never is."""
    if not quiet and (Path(path).is_file() or Path(path).is_dir()):
        click.echo(f"wrote {visible(path)}{more}", err=True)


def _unwritable(path: str, error: OSError) -> TargetError:
    reason = error.strerror or str(error)
    return TargetError(path, f"cannot be written: {reason}", "name another file")


def _replace(file: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name[:40]}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.chmod(name, file.stat().st_mode & 0o777 if file.exists() else 0o666 & ~_umask())
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
