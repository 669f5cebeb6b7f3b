"""Which answers of a hub are safe to use: looked at before the client does anything with them."""

from __future__ import annotations

import threading
import time
from typing import Any

from templatefix.source.deadline import Late

# No small file of a model is larger: a tokenizer.json has at most some 40 MB.
MAX_FILE_BYTES = 512 * 2**20
# The listing of a model with thousands of files has less than a megabyte.
_MAX_ANSWER_BYTES = 16 * 2**20
_SIZE_HEADERS = ("Content-Length", "X-Linked-Size")
_TOO_MANY = 429


class Refused(Exception):
    """The server's answer is not safe to use."""


class TooManyRequests(Exception):
    """The server asks us to wait: the client would, for as long as it is asked to."""

    def __init__(self, response: Any) -> None:
        super().__init__("too many requests")
        self.response = response


class Span(threading.local):
    """How long this thread's requests may take: ``until`` is a moment of the monotonic clock."""

    until = float("inf")

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.until


SPAN = Span()


def look_at(response: Any) -> None:
    """Refuse an answer before the client turns its headers into a path or fills the memory.

    The client joins the commit of any answer, and the entity tag of an answer to HEAD, to paths of
    its cache without looking at them. Only a file's own body is left to be read by the client.
    """
    _look_at_names(response)
    for header in _SIZE_HEADERS:
        length = response.headers.get(header, "")
        if length.isdecimal() and int(length[:20]) > MAX_FILE_BYTES:
            raise Refused(f"the server announces a file of {length[:20]} bytes")
    if response.status_code == _TOO_MANY:
        raise TooManyRequests(response)
    is_file = "/resolve/" in response.request.url.path
    if response.request.method != "HEAD" and (not is_file or response.status_code >= 300):
        _read(response)


def _look_at_names(response: Any) -> None:
    headers = response.headers
    names = {"X-Repo-Commit": headers.get("X-Repo-Commit")}
    if response.request.method == "HEAD":
        linked = headers.get("X-Linked-ETag")
        names |= {"X-Linked-ETag": linked} if linked else {"ETag": headers.get("ETag")}
    for header, value in names.items():
        if value is not None and not _is_plain_name(value):
            raise Refused(f"the server sent {header} {value[:80]!r}, which is not a plain name")


def _is_plain_name(value: str) -> bool:
    """Whether an ETag or a commit can be one component of a path."""
    name = value.strip().removeprefix("W/").strip('"')
    return (
        0 < len(name) <= 200
        and name not in (".", "..")
        and name.isprintable()
        and not any(character in name for character in '/\\:"')
    )


def _read(response: Any) -> None:
    """Read a body that ends, in size and in time; the client finds it read."""
    parts, size = [], 0
    for part in response.iter_bytes():
        size += len(part)
        if size > _MAX_ANSWER_BYTES:
            raise Refused("the server sends an answer without end")
        if SPAN.is_over:
            raise Late
        parts.append(part)
    response._content = b"".join(parts)
