"""The small files of a model repository, as a directory of the hub client's cache."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from templatefix.errors import TargetError
from templatefix.source.choice import (
    ADDITIONAL,
    CHAT_TEMPLATE,
    PROCESSOR_CONFIG,
    PROCESSOR_TEMPLATE,
    TOKENIZER_CONFIG,
)
from templatefix.source.deadline import within
from templatefix.source.hub_answers import SPAN
from templatefix.source.hub_client import Connection, client
from templatefix.source.hub_errors import explain, is_absent, is_outage, pause_wanted
from templatefix.source.options import SourceOptions
from templatefix.source.reading import Folder
from templatefix.source.surroundings import SLOW_TOKENIZERS, TOKENIZER_JSON, find_tokenizer

T = TypeVar("T")

_TEMPLATE_FILES = (TOKENIZER_CONFIG, CHAT_TEMPLATE, PROCESSOR_TEMPLATE, PROCESSOR_CONFIG)
_OTHER_FILES = ("special_tokens_map.json", "generation_config.json", "config.json")
# What a slow tokenizer may need besides the file that marks it.
_SLOW_EXTRAS = ("merges.txt", "added_tokens.json")
# Seconds for one request, of those that the whole target has.
_REQUEST_SECONDS = 10.0
_CACHE_SECONDS = 5.0
# ... between one request and the next that asks the same again.
_PAUSES = (0.5, 1.5, 4.0)
_TRUE = ("1", "ON", "YES", "TRUE")


@dataclass(frozen=True)
class Snapshot:
    """Files of one commit in the cache; ``tokenizer_source`` is how its tokenizer is printed.

    ``listed`` are the names of all files of the repository, fetched or not, where the server
    gave them.
    """

    folder: Folder
    tokenizer_source: str
    listed: frozenset[str] = frozenset()


def snapshot(target: str, options: SourceOptions, *, tokenizer_only: bool = False) -> Snapshot:
    """Fetch what a check needs of repository ``target``, or find it in the cache.

    Never weights and never code: only the names listed here. When the server cannot answer, a
    cached copy stands in. Raises ``TargetError``, at the latest after ``options.time_limit``
    seconds.
    """
    revision = options.revision
    if revision is not None and (".." in revision or revision.startswith("/") or not revision):
        raise TargetError(target, f"{revision!r} is not a revision", "check --revision")
    with warnings.catch_warnings():  # of the client, about disk space and the like
        warnings.simplefilter("ignore")
        try:
            root, listed = _obtain(target, options, tokenizer_only)
        except TargetError:
            raise
        except Exception as error:
            raise explain(error, target, revision) from error
    return Snapshot(Folder(target, root, target), f"{target}@{revision or root.name}", listed)


def _obtain(
    target: str, options: SourceOptions, tokenizer_only: bool
) -> tuple[Path, frozenset[str]]:
    """The directory in the cache, filled by now or before, and the names in the repository."""
    revision = options.revision
    client()  # its import is none of the network's time
    if options.offline or _offline_environment():
        found = within(options.time_limit, lambda gone: _cached(target, revision, gone))
        return found, frozenset()
    seconds = min(_REQUEST_SECONDS, options.time_limit / 2)
    until = time.monotonic() + options.time_limit
    fetch = _Fetch(target, revision, seconds, until, tokenizer_only)
    try:
        return within(options.time_limit, fetch.run)
    except Exception as error:
        if not is_outage(error):
            raise
        # An interrupted fetch leaves half a copy, which would be checked without a word about
        # what is missing. The tokenizer is fetched last: where it is, the rest is.
        kept = within(_CACHE_SECONDS, lambda gone: _search_cache(target, revision, gone))
        if kept is None or find_tokenizer(Folder(target, kept, target)) is None:
            raise
        return kept, frozenset()


def _offline_environment() -> bool:
    """The client's own switches, read now and not at its import."""
    switch = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return switch.upper() in _TRUE


@dataclass(frozen=True)
class _Fetch:
    """One repository's download."""

    target: str
    revision: str | None
    seconds: float
    until: float
    tokenizer_only: bool

    def run(self, abandoned: threading.Event) -> tuple[Path, frozenset[str]]:
        """The directory in the cache that holds the files of one commit, and all their names."""
        SPAN.until = self.until
        connection = Connection(self.target, self.revision, abandoned)
        listed, unlisted = self._list(connection)
        root: Path | None = None
        if self.tokenizer_only:
            wanted = [TOKENIZER_CONFIG, *_OTHER_FILES]
        else:
            wanted = [*_TEMPLATE_FILES, *_OTHER_FILES, *_additional(listed)]
        for file in wanted:
            if listed is None or file in listed:
                root = self._download(connection, file, root) or root
        for file in _tokenizer_files(listed):
            root = self._download(connection, file, root) or root
            if listed is None and file == TOKENIZER_JSON and root and (root / file).exists():
                break
        if root is None and unlisted is not None:
            raise unlisted
        if root is None:
            raise TargetError(
                self.target,
                "the repository holds neither a chat template nor a tokenizer",
                "name a model that is made for chat, or give --chat-template",
            )
        return root, listed or frozenset()

    def _list(self, connection: Connection) -> tuple[frozenset[str] | None, Exception | None]:
        """The repository's file names; None and why, when the server has no listing to give.

        Mirrors exist that serve files alone: there each name is asked for in turn.
        """
        try:
            info = self._patiently(lambda: connection.model_info(self.seconds))
        except Exception as error:
            if is_absent(error):
                return None, error
            raise
        if info.siblings is None:
            return None, None
        return frozenset(sibling.rfilename for sibling in info.siblings), None

    def _patiently(self, ask: Callable[[], T]) -> T:
        """The answer of a server that may be busy: it is asked again after growing pauses, or
        after that which it asks for, where there is time for it."""
        for pause in _PAUSES:
            try:
                return ask()
            except Exception as error:
                wanted = pause_wanted(error)
                if wanted is None or time.monotonic() + max(pause, wanted) > self.until:
                    raise
                time.sleep(max(pause, wanted))
        return ask()

    def _download(self, connection: Connection, file: str, root: Path | None) -> Path | None:
        """Fetch one file. The first is asked for by revision, so that the client notes which
        commit that is (an offline run needs it); the rest come from the same commit."""
        revision = self.revision if root is None else root.name
        try:
            path = self._patiently(lambda: connection.download(file, revision, self.seconds))
        except Exception as error:
            if is_absent(error):
                return None
            raise
        return path.parents[len(PurePosixPath(file).parts) - 1]


def _additional(listed: frozenset[str] | None) -> list[str]:
    return sorted(
        file
        for file in listed or ()
        if file.startswith(f"{ADDITIONAL}/")
        and file.endswith(".jinja")
        and file.count("/") == 1
        and "\\" not in file
    )


def _tokenizer_files(listed: frozenset[str] | None) -> list[str]:
    """``tokenizer.json``, or what transformers needs where there is none."""
    if listed is None:
        return [TOKENIZER_JSON, *SLOW_TOKENIZERS, *_SLOW_EXTRAS]
    if TOKENIZER_JSON in listed:
        return [TOKENIZER_JSON]
    tiktoken = sorted(file for file in listed if file.endswith(".tiktoken") and "/" not in file)
    known = [file for file in (*SLOW_TOKENIZERS, *_SLOW_EXTRAS) if file in listed]
    return list(dict.fromkeys(known + tiktoken))


def _search_cache(target: str, revision: str | None, abandoned: threading.Event) -> Path | None:
    connection = Connection(target, revision, abandoned)
    for file in (*_TEMPLATE_FILES, *_OTHER_FILES, TOKENIZER_JSON, *SLOW_TOKENIZERS):
        if (path := connection.cached(file)) is not None:
            return path.parent
    return None


def _cached(target: str, revision: str | None, abandoned: threading.Event) -> Path:
    found = _search_cache(target, revision, abandoned)
    if found is None:
        raise TargetError(
            target,
            "not in the local hub cache" + (f" at revision {revision!r}" if revision else ""),
            "run once without offline mode",
        )
    return found
