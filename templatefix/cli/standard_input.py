"""A template on standard input, read once: a child that is killed must not take it along."""

from __future__ import annotations

import sys
from base64 import b64encode

from templatefix.source.reading import MAX_BYTES


def standard_input() -> bytes | None:
    """What a template on standard input is read from, one byte more than is accepted."""
    return None if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)


def encoded(given: bytes | None) -> str | None:
    """The same as ``worker.Job.given`` has it."""
    return None if given is None else b64encode(given).decode("ascii")
