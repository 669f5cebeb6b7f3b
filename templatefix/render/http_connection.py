"""One kept-alive HTTP connection that no server can make wait, or fill the memory, for ever."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from templatefix.errors import TargetError

#: A prompt of a million tokens, as JSON, is a sixth of this.
_MOST_BYTES = 64 * 1024 * 1024
_SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
_DOWN = "start the server, or let --server auto do it"


@dataclass(frozen=True)
class Reply:
    """A reply's status and body."""

    status: int
    content: bytes


class Connection:
    """A connection to the server at ``url``; every failure of it is a ``TargetError``.

    ``timeout`` is the number of seconds that a request and its whole reply may take together.
    """

    def __init__(self, url: str, api_key: str | None, timeout: float) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise TargetError(url, f"is no URL: {error}") from None
        if parts.scheme not in _SCHEMES or not host:
            hint = "such as http://127.0.0.1:8000, or auto"
            raise TargetError(url, "is no URL of a server", hint)
        self._url = url
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._http = _SCHEMES[parts.scheme](host, port, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Reply:
        """Send a request and read the whole reply."""
        content = None if body is None else json.dumps(body)
        kept = self._http.sock is not None
        try:
            return self._exchange(method, path, content)
        except (ConnectionError, http.client.RemoteDisconnected) as error:
            # A server hangs up on a connection that was idle for some seconds.
            if not kept or isinstance(error, ConnectionRefusedError):
                raise self._failed(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(error) from error
        try:
            return self._exchange(method, path, content)
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(error) from error

    def _exchange(self, method: str, path: str, content: str | None) -> Reply:
        late = threading.Event()

        def hang_up() -> None:
            late.set()
            sock = self._http.sock
            if sock is not None:
                # Ends the reading below, wherever a slow server keeps it.
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

        # A limit on each read would not do: a byte at a time passes it for ever.
        timer = threading.Timer(self._timeout, hang_up)
        timer.daemon = True
        timer.start()
        try:
            self._http.request(method, self._prefix + path, content, self._headers)
            response = self._http.getresponse()
            read = response.read(_MOST_BYTES + 1)
            if late.is_set():
                raise TimeoutError
            if len(read) > _MOST_BYTES:
                raise http.client.HTTPException(f"more than {_MOST_BYTES >> 20} MiB")
            return Reply(response.status, read)
        except BaseException as error:
            self._http.close()
            if late.is_set() and isinstance(error, (OSError, http.client.HTTPException)):
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()

    def _failed(self, error: Exception) -> TargetError:
        if isinstance(error, TimeoutError):
            return TargetError(
                self._url,
                f"does not answer within {self._timeout:g} seconds",
                "give it longer with --server-timeout",
            )
        if isinstance(error, ConnectionRefusedError):
            return TargetError(self._url, "no server listens there", _DOWN)
        if isinstance(error, socket.gaierror):
            return TargetError(
                self._url, f"the host is not known: {error.strerror}", "mend the URL"
            )
        if isinstance(error, ssl.SSLError):
            return TargetError(self._url, f"TLS fails: {error.reason or error}", "mend the URL")
        if isinstance(error, ConnectionError | http.client.RemoteDisconnected):
            return TargetError(self._url, "the server hangs up", "look at the server's log")
        if isinstance(error, http.client.HTTPException):
            said = str(error) or type(error).__name__
            return TargetError(
                self._url, f"does not speak HTTP as expected: {said}", "mend the URL"
            )
        return TargetError(self._url, f"cannot be reached: {error}", _DOWN)
