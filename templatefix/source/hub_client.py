"""huggingface_hub, made quiet and careful. Imported only when a target is on the hub."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

# No small file of a model is larger: a tokenizer.json has at most some 40 MB.
MAX_FILE_BYTES = 512 * 2**20
_SIZE_HEADERS = ("Content-Length", "X-Linked-Size")
_LOCK = threading.Lock()
_CAREFUL = threading.Event()


class Refused(Exception):
    """The server's answer is not safe to use."""


def client() -> ModuleType:
    """The module ``huggingface_hub``, with warnings, logs and progress bars off.

    Its environment variables count as they stood at its first import, except for those that
    ``Connection`` reads. Xet transfers are off: they pass by the checks below, and small files
    gain nothing from them.
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
        import huggingface_hub

        if not _CAREFUL.is_set():
            from huggingface_hub.utils import _http

            # Above CRITICAL: the client logs each failed request, and we report it ourselves.
            logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL + 1)

            def careful_client() -> Any:
                session = _http.default_client_factory()
                session.event_hooks["response"].append(_check_headers)
                return session

            huggingface_hub.set_client_factory(careful_client)
            _CAREFUL.set()
        return huggingface_hub


def _check_headers(response: Any) -> None:
    """Refuse an answer before the client turns its headers into a path or fills the disk.

    It joins the commit of any answer, and the entity tag of an answer to HEAD, to paths of its
    cache without looking at them.
    """
    headers = response.headers
    names = {"X-Repo-Commit": headers.get("X-Repo-Commit")}
    if response.request.method == "HEAD":
        linked = headers.get("X-Linked-ETag")
        names |= {"X-Linked-ETag": linked} if linked else {"ETag": headers.get("ETag")}
    for header, value in names.items():
        if value is not None and not _is_plain_name(value):
            raise Refused(f"the server sent {header} {value[:80]!r}, which is not a plain name")
    for header in _SIZE_HEADERS:
        length = headers.get(header, "")
        if length.isdecimal() and int(length[:20]) > MAX_FILE_BYTES:
            raise Refused(f"the server announces a file of {length[:20]} bytes")


def _is_plain_name(value: str) -> bool:
    """Whether an ETag or a commit can be one component of a path."""
    name = value.strip().removeprefix("W/").strip('"')
    return (
        0 < len(name) <= 200
        and name not in (".", "..")
        and name.isprintable()
        and not any(character in name for character in '/\\:"')
    )


class Connection:
    """The hub as one target sees it: a repository at a revision, until nobody waits any more."""

    def __init__(self, repository: str, revision: str | None, abandoned: threading.Event) -> None:
        self.repository = repository
        self.revision = revision
        self.endpoint = os.environ.get("HF_ENDPOINT") or None
        self._abandoned = abandoned
        self._hub = client()

    def model_info(self, seconds: float) -> ModelInfo:
        """The repository's file names and commit. One request, which may take ``seconds``."""
        api = self._hub.HfApi(endpoint=self.endpoint)
        info: ModelInfo = api.model_info(self.repository, revision=self.revision, timeout=seconds)
        return info

    def download(self, file: str, revision: str | None, seconds: float) -> Path:
        """A file's path in the cache, after fetching it unless it is there."""
        if self._abandoned.is_set():
            raise Refused("no longer wanted")
        abandoned = self._abandoned

        class Meter:
            """Takes the place of a progress bar: counts bytes instead of drawing them."""

            def __init__(self, *_: Any, **__: Any) -> None:
                self.received = 0

            def __enter__(self) -> Meter:
                return self

            def __exit__(self, *_: Any) -> None:
                return None

            def update(self, number: float | None = 1) -> None:
                self.received += int(number or 0)
                if self.received > MAX_FILE_BYTES:
                    raise Refused("the server sends a file without end")
                if abandoned.is_set():
                    raise Refused("no longer wanted")

        return Path(
            self._hub.hf_hub_download(
                self.repository,
                file,
                revision=revision,
                endpoint=self.endpoint,
                etag_timeout=seconds,
                tqdm_class=Meter,
            )
        )

    def cached(self, file: str) -> Path | None:
        """A file's path in the cache, without any request."""
        found = self._hub.try_to_load_from_cache(self.repository, file, revision=self.revision)
        return Path(found) if isinstance(found, str) else None
