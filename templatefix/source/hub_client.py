"""huggingface_hub, made quiet and careful. Imported only when a target is on the hub."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from templatefix.source.hub_answers import MAX_FILE_BYTES, Refused, look_at

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

_LOCK = threading.Lock()
_CAREFUL = threading.Event()


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
                session.event_hooks["response"].append(look_at)
                return session

            huggingface_hub.set_client_factory(careful_client)
            # The module imports its parts when they are used: better now than on the clock.
            _ = huggingface_hub.HfApi, huggingface_hub.hf_hub_download
            _CAREFUL.set()
        return huggingface_hub


#: What the client fails with where a listing is no JSON, or another JSON.
_UNREADABLE = (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError)


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
        try:
            info: ModelInfo = api.model_info(
                self.repository, revision=self.revision, timeout=seconds
            )
        except (*_UNREADABLE, RecursionError) as error:
            what = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            raise Refused(f"its list of files cannot be read ({what})") from error
        return info

    def download(self, file: str, revision: str | None, seconds: float) -> Path:
        """A file's path in the cache, after fetching it unless it is there.

        What was fetched is what its entity tag says, where that is a hash of it.
        """
        if self._abandoned.is_set():
            raise Refused("no longer wanted")
        abandoned = self._abandoned
        meters: list[Any] = []

        class Meter:
            """Takes the place of a progress bar: counts bytes instead of drawing them."""

            def __init__(self, *_: Any, **__: Any) -> None:
                self.received = 0
                meters.append(self)

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

        path = Path(
            self._hub.hf_hub_download(
                self.repository,
                file,
                revision=revision,
                endpoint=self.endpoint,
                etag_timeout=seconds,
                tqdm_class=Meter,
            )
        )
        if meters and not _is_what_its_name_says(path.resolve()):
            path.resolve().unlink()
            path.unlink(missing_ok=True)
            raise Refused(f"the server sent a part of {file}, or something else in its place")
        return path

    def cached(self, file: str) -> Path | None:
        """A file's path in the cache, without any request."""
        found = self._hub.try_to_load_from_cache(self.repository, file, revision=self.revision)
        return Path(found) if isinstance(found, str) else None


def _is_what_its_name_says(blob: Path) -> bool:
    """Whether a file in the cache has the hash that it is named by, if it is named by a hash.

    The hub names small files by their Git object, large ones by SHA-256, some mirrors by SHA-1.
    A server that announces half a file and sends it is found out by nothing else.
    """
    name = blob.name
    if len(name) not in (40, 64) or set(name) - set("0123456789abcdef"):
        return True
    content = blob.read_bytes()
    if len(name) == 64:
        return hashlib.sha256(content).hexdigest() == name
    as_object = b"blob %d\0" % len(content) + content
    hashes = (hashlib.sha1(each, usedforsecurity=False) for each in (as_object, content))
    return name in [each.hexdigest() for each in hashes]
