"""Where templates lie in a directory tree: a walk that ends, in an order that does not change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from templatefix.errors import TargetError
from templatefix.source.choice import ADDITIONAL, MARKERS
from templatefix.source.reading import explain_os_error

_TEMPLATE_SUFFIXES = (".jinja", ".jinja2", ".j2", ".gguf")
_SKIPPED = ("node_modules", "venv", "site-packages", "__pycache__")


def search(root: Path) -> Iterator[Path | TargetError]:
    """Everything under ``root`` that may hold a template, sorted within each directory: files, and
    directories with a model's files, whose templates are chosen as transformers does.

    Links to directories are not followed, so a loop cannot arise. A directory that cannot be
    listed is reported and does not end the search.
    """
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            yield TargetError(str(directory), explain_os_error(error), "check its permissions")
            continue
        names = {entry.name for entry in entries}
        if "pyvenv.cfg" in names and directory != root:
            continue
        files = [entry.name for entry in entries if _is_file(entry)]
        is_model = any(name in MARKERS for name in files)
        if is_model:
            yield directory
        for name in files:
            if name.lower().endswith(_TEMPLATE_SUFFIXES) and not (is_model and name in MARKERS):
                yield directory / name
        below = [
            directory / entry.name
            for entry in entries
            if _is_directory(entry)
            and not entry.name.startswith(".")
            and entry.name not in _SKIPPED
            and not (is_model and entry.name == ADDITIONAL)
        ]
        pending.extend(reversed(below))


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
