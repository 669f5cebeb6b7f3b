"""Where ready templates lie, and what is there."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from templatefix.errors import TargetError
from templatefix.findings.ready import Header, Record
from templatefix.ready.header import header_of
from templatefix.ready.record import record_from

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Ready:
    """A ready template: its file, and the record beside it."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def header(self) -> Header:
        """Raises ``TargetError``."""
        return header_of(self.text, str(self.path))

    @property
    def record_path(self) -> Path:
        return self.path.with_suffix(".json")

    @cached_property
    def record(self) -> Record | None:
        """None where nothing was measured yet. Raises ``TargetError``."""
        path = self.record_path
        if not path.is_file():
            return None
        return record_from(path.read_text(encoding="utf-8"), str(path))


def directory() -> Path:
    """The folder of the ready templates: in the package, or beside it in a source tree."""
    installed = _PACKAGE / "patched_templates"
    return installed if installed.is_dir() else _PACKAGE.parent / "patched_templates"


def shelf() -> tuple[Ready, ...]:
    """Every ready template, by name."""
    return tuple(Ready(path.stem, path) for path in sorted(directory().glob("*.jinja")))


def take(name: str) -> Ready:
    """The ready template of a name. Raises ``TargetError``."""
    names = [each.name for each in shelf()]
    if name not in names:
        close = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {close[0]}?" if close else "templatefix ready list names them"
        raise TargetError(name, "no ready template has that name", hint)
    return next(each for each in shelf() if each.name == name)
