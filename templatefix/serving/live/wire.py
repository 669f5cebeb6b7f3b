"""HTTP with a live server: each request has a deadline, a limit on bytes, and is counted.

The standard library's client is enough, and its sockets can be given what a hanging or dripping
server calls for: one deadline over a whole exchange instead of one for each read. Nothing is
retried and no redirect is followed, so that nothing is sent that was not asked for, and the key
goes to no other host.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from templatefix.errors import TargetError

#: No answer to one of our requests is larger: a stream of events repeats much, but not this much.
MAX_BYTES = 64 * 2**20
_LONGEST_LINE = 16 * 2**20
_LONGEST_MESSAGE = 400
#: No proxy reaches these.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Unusable(TargetError):
    """The server cannot be driven on: it is silent, broken, or contradicts itself."""


@dataclass(frozen=True)
class Address:
    """A server: what is before ``/v1``. ``shown`` is the address as reports print it."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def address_of(url: str) -> Address:
    """The address in a URL, with or without ``/v1``. Raises ``TargetError``."""
    hint = "expected http://HOST:PORT"
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise TargetError(url, f"not a URL: {error}", hint) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise TargetError(url, "not the URL of an HTTP server", hint)
    if parts.username or parts.password:
        # It would be printed wherever the address is.
        shown = text.replace(f"{parts.netloc.rpartition('@')[0]}@", "")
        raise TargetError(shown, "holds a user name or a password", "use --api-key")
    if parts.query or parts.fragment or not _printable_ascii(text):
        raise TargetError(url, "not the URL of an HTTP server", hint)
    path = parts.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/v1")
    path = path.rstrip("/")
    return Address(
        parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), path
    )


def _printable_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


@dataclass(frozen=True)
class Security:
    """How the server is trusted: a file of certificates, or not at all (``insecure``)."""

    api_key: str | None = None
    ca: str | None = None
    insecure: bool = False


@dataclass(frozen=True)
class Response:
    """A whole answer. ``text`` is decoded as UTF-8, with what is not UTF-8 replaced."""

    status: int
    text: str

    def json(self) -> Any:
        """The document. Raises ``ValueError`` or ``RecursionError``."""
        return json.loads(self.text)


class Wire:
    """Sends requests to one server, each on a connection of its own.

    ``seconds`` limit each exchange as a whole. ``sent`` counts the requests by method and path.
    All methods raise :class:`Unusable`.
    """

    def __init__(self, address: Address, security: Security, seconds: float) -> None:
        self.address = address
        self.sent: Counter[str] = Counter()
        self._key = security.api_key
        if self._key is not None and not _printable_ascii(self._key):
            raise TargetError("--api-key", "holds a character that no HTTP header may hold")
        self._seconds = seconds
        self._tls = _tls(security) if address.scheme == "https" else None

    def get(self, path: str) -> Response:
        return self._whole("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any] | None) -> Response:
        """``body`` is sent as JSON; None sends an empty one."""
        return self._whole("POST", path, body)

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[str] | Response:
        """The payloads of a stream of server-sent events, or the answer that came instead."""
        with self._named(path):
            exchange = self._open("POST", path, body)
            if exchange.response.status != 200 or not exchange.is_event_stream:
                return exchange.whole()
        return self._payloads(path, exchange)

    def fault(self, message: str, hint: str = "") -> Unusable:
        """The error that names this server, without the key that an answer may repeat."""
        return Unusable(self.address.shown, self.without_key(message), hint)

    def without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    def _payloads(self, path: str, exchange: _Exchange) -> Iterator[str]:
        with self._named(path), contextlib.closing(exchange):
            yield from exchange.payloads()

    def _whole(self, method: str, path: str, body: Mapping[str, Any] | None) -> Response:
        with self._named(path):
            return self._open(method, path, body).whole()

    def _open(self, method: str, path: str, body: Mapping[str, Any] | None) -> _Exchange:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}
        if method == "POST":
            headers["Content-Type"] = "application/json"
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        self.sent[f"{method} {path.partition('?')[0]}"] += 1
        deadline = time.monotonic() + self._seconds
        connection, target = _connection(self.address, self._tls, self._seconds)
        try:
            connection.connect()
            assert connection.sock is not None
            # http.client asks its socket for no more than these methods.
            connection.sock = _TimedSocket(connection.sock, deadline)
            connection.request(method, target + path, content or None, headers)
            return _Exchange(connection, connection.getresponse())
        except BaseException:
            connection.close()
            raise

    @contextlib.contextmanager
    def _named(self, path: str) -> Iterator[None]:
        """What can go wrong on the way, in words."""
        try:
            yield
        except Unusable:
            raise
        except TimeoutError:
            what = f"{path} was not answered within {self._seconds:g} s"
            raise self.fault(
                what, "the server hangs or is busy; --timeout gives it longer"
            ) from None
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message or str(error)
            hint = "--ca names the certificate to trust, --insecure trusts any"
            raise self.fault(f"its certificate is not trusted: {why}", hint) from None
        except ssl.SSLError as error:
            why = error.reason or str(error)
            raise self.fault(f"no TLS connection: {why}", "does it speak plain http://?") from None
        except ConnectionRefusedError:
            raise self.fault(
                "nothing listens there", "start the server, or check the port"
            ) from None
        except socket.gaierror as error:
            raise self.fault(f"no such host: {error.strerror}", "check the URL") from None
        except TooLong as error:
            raise self.fault(f"{path}: {error}") from None
        except (http.client.RemoteDisconnected, http.client.IncompleteRead):
            raise self.fault(f"the connection ended in the middle of {path}", _DIED) from None
        except http.client.HTTPException as error:
            why = f"{type(error).__name__} {error}".strip()
            raise self.fault(f"does not speak HTTP: {why}", "check the URL") from None
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            raise self.fault(f"the connection failed at {path}: {why}", _DIED) from None


_DIED = "the server's log may say why"


class TooLong(Exception):
    """More was sent than any answer needs."""


class _Exchange:
    """A response whose body is still to be read."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self.response = response

    @property
    def is_event_stream(self) -> bool:
        return self.response.headers.get_content_type() == "text/event-stream"

    def whole(self) -> Response:
        with contextlib.closing(self):
            pieces, size = [], 0
            while piece := self.response.read(2**16):
                size += len(piece)
                if size > MAX_BYTES:
                    raise TooLong(f"the answer is longer than {MAX_BYTES} bytes")
                pieces.append(piece)
            if self.response.length:  # read(n) does not say that the body is short
                raise http.client.IncompleteRead(b"")
            return Response(self.response.status, b"".join(pieces).decode("utf-8", "replace"))

    def payloads(self) -> Iterator[str]:
        """The data of each event. Other fields and comments are skipped, as the format says."""
        held: list[str] = []
        size = 0
        while line := self.response.readline(_LONGEST_LINE):
            size += len(line)
            if size > MAX_BYTES or len(line) >= _LONGEST_LINE:
                raise TooLong("the server sends events without end")
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if text.startswith("data:"):
                held.append(text.removeprefix("data:").removeprefix(" "))
            elif not text and held:
                yield "\n".join(held)
                held = []
        if held:
            yield "\n".join(held)

    def close(self) -> None:
        self.response.close()
        self._connection.close()


class _TimedSocket:
    """A socket whose every operation ends by one deadline."""

    def __init__(self, plain: Any, deadline: float) -> None:
        self._plain = plain
        self._deadline = deadline

    def sendall(self, content: Any) -> None:
        self._plain.settimeout(self._left())
        self._plain.sendall(content)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._plain, self._left))

    def close(self) -> None:
        self._plain.close()

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _TimedReader(io.RawIOBase):
    """Reads from a socket, which stays open until this is closed: http.client lets go of the
    socket when it has the headers."""

    def __init__(self, plain: Any, left: Callable[[], float]) -> None:
        self._plain = plain
        self._raw = plain.makefile("rb", buffering=0)
        self._left = left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._plain.settimeout(self._left())
        received: int | None = self._raw.readinto(buffer)
        return received

    def close(self) -> None:
        self._raw.close()
        super().close()


def _connection(
    address: Address, tls: ssl.SSLContext | None, seconds: float
) -> tuple[http.client.HTTPConnection, str]:
    """A connection, through the environment's proxy where it names one, and the target's stem."""
    direct = address.host in _LOOPBACK or proxy_bypass(address.host)
    proxy = None if direct else getproxies().get(address.scheme)
    where = urlsplit(proxy if proxy and "://" in proxy else f"http://{proxy}") if proxy else None
    host = where.hostname if where and where.hostname else address.host
    port = (where.port or 80) if where else address.port
    if tls is not None:
        secure = http.client.HTTPSConnection(host, port, timeout=seconds, context=tls)
        if where:
            secure.set_tunnel(address.host, address.port, _proxy_headers(where))
        return secure, address.path
    plain = http.client.HTTPConnection(host, port, timeout=seconds)
    return plain, address.shown if where else address.path


def _proxy_headers(where: Any) -> dict[str, str]:
    if not where.username:
        return {}
    import base64

    pair = f"{unquote(where.username)}:{unquote(where.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _tls(security: Security) -> ssl.SSLContext:
    if security.insecure:
        anyone = ssl.create_default_context()
        anyone.check_hostname = False
        anyone.verify_mode = ssl.CERT_NONE
        return anyone
    try:
        return ssl.create_default_context(cafile=security.ca)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        hint = "--ca takes a file of certificates in PEM form"
        raise TargetError(str(security.ca), f"cannot be read: {reason}", hint) from None


def words_of(response: Response) -> str:
    """What a server says is wrong, on one line: OpenAI's form, FastAPI's, or its plain text."""
    try:
        document = response.json()
    except (ValueError, RecursionError):
        document = None
    said: Any = None
    if isinstance(document, dict):
        said = document.get("error", document.get("detail", document.get("message")))
        if isinstance(said, dict):
            said = said.get("message")
    if not isinstance(said, str) or not said.strip():
        said = response.text
        if said.lstrip()[:1] == "<":
            return "a page of HTML"
    told = " ".join(str(said).split())
    return told if len(told) <= _LONGEST_MESSAGE else told[:_LONGEST_MESSAGE] + "…"
