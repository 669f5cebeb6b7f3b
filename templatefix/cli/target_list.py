"""Targets from a file: ``--targets-from``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from templatefix.errors import TargetError


def read_targets(name: str) -> list[str]:
    """One target for each line that is neither blank nor begins with ``#``. Raises TargetError.

    Names of files may hold any bytes, as the file system has them.
    """
    label = "<stdin>" if name == "-" else name
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise TargetError(label, f"cannot be read: {reason}", "check the path") from error
    lines = [line.strip() for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    if any(b"\0" in line for line in lines):
        hint = "write one target a line, as UTF-8"
        raise TargetError(label, "is not a list of targets: it holds NUL bytes", hint)
    found = [os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]
    if name == "-" and "-" in found:
        hint = "name a file with the list instead"
        raise TargetError(label, "a list on standard input cannot name standard input", hint)
    return found
