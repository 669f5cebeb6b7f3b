"""Where a path leads. ``Path.resolve`` raises on links in a circle and on a NUL: these are
questions that every name on a command line has to have an answer to."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def followed(path: str | Path) -> Path:
    """The absolute path, its links followed as far as they lead; what cannot be followed stays."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a NUL, which no file system can hold
        return Path(path).absolute()


def seen_from(folder: Path, path: str | Path) -> str:
    """The path from a folder to where another one leads, with slashes; from the root of its drive,
    where that is another."""
    end = followed(path)
    try:
        way = os.path.relpath(end, folder)
    except ValueError:
        way = str(end)
    return way.replace(os.sep, "/")


def destination(path: str | Path) -> Path:
    """Where a file has to be written so that its links stay links. Raises ``OSError``."""
    end = followed(path)
    if os.path.islink(end):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return end
