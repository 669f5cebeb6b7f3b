"""What went wrong between us and the hub, in one line and with the next step."""

from __future__ import annotations

import os
from collections.abc import Iterator

from templatefix.errors import TargetError
from templatefix.source.deadline import Late
from templatefix.source.hub_answers import Refused

_OUTAGE_HINT = "try again later, or use --offline with a cached copy"
_NETWORK_HINT = "check the network, the proxy and HF_ENDPOINT, or use --offline with a cached copy"
_ENDPOINT_HINT = "check HF_ENDPOINT and the proxy: something else than a hub may answer there"
_PROXY_HINT = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
_TOKEN_HINT = "accept its terms on the hub and set HF_TOKEN to a token that may read it"


_NO_FILE = "no such file or directory"
_NOT_CACHED = {"OfflineModeIsEnabled", "LocalEntryNotFoundError"}


def explain(error: BaseException, target: str, revision: str | None) -> TargetError:
    """The ``TargetError`` for anything that the hub client raised."""
    message, hint = _explain(error, revision)
    if "/" not in target and not message.startswith(_NO_FILE):
        # It was looked for as a file first, and most likely meant as one.
        message = f"{_NO_FILE}, and as a hub id: {message}"
    return TargetError(target, _without_token(message), hint)


def is_outage(error: BaseException) -> bool:
    """Whether the server could not answer now, so that a cached copy may stand in."""
    names, status = _names(error), _status(error)
    return (
        isinstance(error, Late)
        or "OfflineModeIsEnabled" in names
        or "TransportError" in names
        or (status is not None and (status == 429 or status >= 500))
    )


def pause_wanted(error: BaseException) -> float | None:
    """Seconds after which it is worth asking again, 0 where the server does not say; None where it
    is not: a silent server has had its time, and what cannot be reached will not be."""
    if isinstance(error, Late) or _names(error) & {"TimeoutException", "ConnectError"}:
        return None
    if not is_outage(error):
        return None
    for each in _chain(error):
        headers = getattr(getattr(each, "response", None), "headers", {})
        asked = str(headers.get("Retry-After", ""))
        if asked.isdecimal():
            return float(asked[:9])
    return 0.0


def is_absent(error: BaseException) -> bool:
    """Whether the server says that just this file is not there; no outage is taken for this."""
    names = _names(error)
    if names & {"RepositoryNotFoundError", "RevisionNotFoundError"}:
        return False
    return "RemoteEntryNotFoundError" in names or _status(error) == 404


def _explain(error: BaseException, revision: str | None) -> tuple[str, str]:
    names, status, endpoint = _names(error), _status(error), _endpoint()
    if isinstance(error, Late):
        return f"no answer from {endpoint} in the time allowed", _NETWORK_HINT
    if refusal := next((each for each in _chain(error) if isinstance(each, Refused)), None):
        return f"refused an answer from {endpoint}: {refusal}", _ENDPOINT_HINT
    if "HFValidationError" in names:
        return (
            f"{_NO_FILE}, and not a hub id either",
            "name a path, or a hub id such as org/name",
        )
    if "GatedRepoError" in names:
        return "the repository is gated, and access is refused", _TOKEN_HINT
    if "DisabledRepoError" in names:
        return "the repository has been disabled on the hub", "choose another repository"
    if "RevisionNotFoundError" in names:
        return f"the repository has no revision {revision!r}", "check --revision"
    if "RepositoryNotFoundError" in names:
        return (
            f"no such repository on {endpoint}, or it is private",
            "check the id; for a private repository set HF_TOKEN",
        )
    if "FileMetadataError" in names and status is None:
        return f"{endpoint} does not answer as a hub does", _ENDPOINT_HINT
    if names & _NOT_CACHED and status is None and "TransportError" not in names:
        return "not in the local hub cache", "run once without offline mode"
    if status in (401, 403):
        return f"access is refused (HTTP {status})", _TOKEN_HINT
    if status == 404:
        return f"not found on {endpoint}", "check the id and --revision"
    if status == 429:
        return (
            "the hub limits the rate of requests (HTTP 429)",
            "wait some minutes or give it --network-timeout, set HF_TOKEN, or use --offline",
        )
    if status is not None:
        return f"the hub answers with HTTP {status}", _OUTAGE_HINT
    if "TimeoutException" in names:
        return f"no answer from {endpoint} in the time allowed", _NETWORK_HINT
    if "ProxyError" in names:
        return f"the proxy does not reach {endpoint}: {_last_line(error)}", _PROXY_HINT
    if "ConnectError" in names:
        return f"cannot reach {endpoint}", _NETWORK_HINT
    if "TooManyRedirects" in names:
        return f"{endpoint} redirects without end", _ENDPOINT_HINT
    if names & {"UnsupportedProtocol", "InvalidURL"}:
        if endpoint.startswith(("http://", "https://")):
            return f"{endpoint} redirects to what is no web address", _ENDPOINT_HINT
        return f"{endpoint} is no web address", "set HF_ENDPOINT to one that begins with https://"
    if "TransportError" in names:
        return f"the connection to {endpoint} broke: {_last_line(error)}", _NETWORK_HINT
    if isinstance(error, UnicodeEncodeError):
        return "HF_TOKEN holds characters that no request can carry", "set it to a plain token"
    if isinstance(error, OSError) and error.filename is not None:
        return (
            f"cannot use {error.filename}: {error.strerror}",
            "set HF_HOME to a folder of yours",
        )
    return f"the hub client failed: {type(error).__name__}: {_last_line(error)}", _OUTAGE_HINT


def _endpoint() -> str:
    try:
        from huggingface_hub.constants import ENDPOINT
    except (ImportError, ValueError):  # a variable that it cannot read is why it failed
        ENDPOINT = "the hub"
    return (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from: the client wraps outages in "not in the cache"."""
    current: BaseException | None = error
    for _ in range(16):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


def _names(error: BaseException) -> frozenset[str]:
    """The names of all classes of an error and its causes.

    Names, because the classes belong to modules that must not be imported here, and to a
    transport (httpx, httpx2) that changed between releases of the client.
    """
    return frozenset(kind.__name__ for each in _chain(error) for kind in type(each).__mro__)


def _status(error: BaseException) -> int | None:
    """The HTTP status behind an error."""
    for each in _chain(error):
        status = getattr(getattr(each, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
    return None


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def _without_token(message: str) -> str:
    """A header that the transport rejects is quoted in its message, token and all."""
    token = os.environ.get("HF_TOKEN", "").strip()
    return message.replace(token, "***") if token else message
