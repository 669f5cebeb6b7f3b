"""The file that a patched template goes into, and the one that it came from."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from templatefix.errors import TargetError
from templatefix.report.visible import visible
from templatefix.source import ChatTemplate, is_local
from templatefix.source.choice import ADDITIONAL, TOKENIZER_CONFIG
from templatefix.source.reading import Place, is_file, read_bytes
from templatefix.source.write_back import stored_text, write_back

_JSON_FORMATS = ("tokenizer-config", "chat-template-json")
_JINJA_HINT = "leave --emit out, and serve the template with --chat-template"


@dataclass(frozen=True)
class Kept:
    """The original's place: ``content`` is the whole file as text, a byte order mark included.

    ``is_json``: the template is one value of a JSON file, whose other bytes stay. ``path`` is
    empty where there is no file to write back to. ``overruled_by`` names a file that servers
    read instead of this one.
    """

    label: str
    path: str
    content: str
    is_json: bool
    name: str | None
    overruled_by: str | None = None

    def with_template(self, text: str) -> str:
        """The content of the file with another template in it."""
        if not self.is_json:
            bom = "\ufeff" if self.content.startswith("\ufeff") else ""
            return bom + text
        place = Place(self.label, self.label)
        return write_back(self.content.encode("utf-8"), self.name, text, place).decode("utf-8")

    def expect_unchanged(self) -> None:
        """Raises ``TargetError`` when somebody else has changed the file since it was read."""
        now = read_bytes(Path(self.path), Place(self.path, self.path))
        if now != self.content.encode("utf-8"):
            raise TargetError(self.path, "was changed while it was being patched", "patch it again")


def kept(template: ChatTemplate, *, emit: str | None, in_place: bool, given: bytes) -> Kept:
    """What the patched template will be written into.

    ``given`` is what was read from standard input. Raises ``TargetError`` when the target has no
    file of the kind that is asked for.
    """
    if in_place:
        _expect_own_file(template, emit)
    is_json = emit == "tokenizer-config" or (in_place and template.format in _JSON_FORMATS)
    if not is_json:
        path, content = "", template.text
        if template.format == "jinja" and template.path is not None and is_file(template.path):
            # The text as it was loaded is without a byte order mark.
            path = str(template.path)
            place = Place(template.target, template.display)
            content = read_bytes(template.path, place).decode("utf-8")
        return Kept(template.display, path, content, False, template.name)
    if in_place or template.format == "tokenizer-config":
        if template.path is None:
            place = Place(template.target, template.display)
            return _checked(Kept("<stdin>", "", given.decode("utf-8"), True, template.name), place)
        return _json_file(template, template.path, None)
    beside = None if template.path is None else _config_beside(template.path)
    if beside is None or not is_file(beside):
        raise TargetError(template.target, f"has no {TOKENIZER_CONFIG} to write into", _JINJA_HINT)
    return _json_file(template, beside, template.path)


def _expect_own_file(template: ChatTemplate, emit: str | None) -> None:
    target = template.target
    if not is_local(target) or template.path is None or not is_file(template.path):
        raise TargetError(target, "is not a local file to patch in place", "give --out FILE")
    if template.format not in ("jinja", *_JSON_FORMATS):
        hint = "give --out FILE, and serve it with --chat-template"
        raise TargetError(target, f"a {template.format.upper()} file is not patched in place", hint)
    if emit is not None and (emit == "jinja") != (template.format == "jinja"):
        raise TargetError(
            target,
            f"in place, {template.display} stays the kind of file that it is",
            "leave out --emit, or give --out FILE",
        )


def _config_beside(path: Path) -> Path:
    directory = path.parent.parent if path.parent.name == ADDITIONAL else path.parent
    return directory / TOKENIZER_CONFIG


def _json_file(template: ChatTemplate, path: Path, overruled_by: Path | None) -> Kept:
    label = template.display if overruled_by is None else str(path)
    place = Place(template.target, label)
    content = read_bytes(path, place).decode("utf-8")
    name = None if overruled_by is None else overruled_by.name
    return _checked(Kept(label, str(path), content, True, template.name, name), place)


def _checked(found: Kept, place: Place) -> Kept:
    """The file, which has a template to replace. Raises ``TargetError``."""
    stored_text(found.content.encode("utf-8"), found.name, place)
    return found


def for_stdout(text: str) -> str:
    """The text as it is for a pipe or a file; for a terminal, what it must not see escaped."""
    if sys.stdout is None or not sys.stdout.isatty():
        return text
    return "".join(
        part if part in ("\n", "\r\n", "\t") else visible(part)
        for part in re.split(r"(\r?\n|\t)", text)
    )
