"""From untrusted bytes to text and JSON objects: every way to fail is one ``TargetError``."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, Any

from templatefix.errors import TargetError

# The largest tokenizer_config.json and template seen are a few MB.
MAX_BYTES = 32 * 2**20
#: Bytes of which hardly a template has more.
_USUAL = 65_536
#: Nanoseconds after its last change for which a directory is listed each time: file systems tell
#: times to two seconds at worst. Later its names are remembered, for each of its files asks.
_SETTLED = 3_000_000_000
#: The next step for a file that is damaged.
REPAIR = "repair the file or fetch it again"


@dataclass(frozen=True)
class Place:
    """Where bytes come from: the target that the user named, and the file in it to print."""

    target: str
    label: str

    def fault(self, message: str, hint: str = "") -> TargetError:
        """The error to raise for this file, naming it where the target alone does not."""
        below = self.label.removeprefix(self.target.rstrip("/") + "/")
        prefix = "" if os.path.normpath(below) == os.path.normpath(self.target) else f"{below}: "
        return TargetError(self.target, prefix + message, hint)


def explain_os_error(error: OSError | ValueError) -> str:
    """A short reason why a path could not be opened or read."""
    if isinstance(error, FileNotFoundError):
        return "no such file or directory"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"cannot be read: {error}"


def is_file(path: Path) -> bool:
    """Whether ``path`` is a regular file. Pipes and devices beside a target are never opened."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_directory(path: Path) -> bool:
    """``Path.is_dir`` that also answers for names no file system can hold."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def read_stream(stream: IO[bytes], place: Place) -> bytes:
    """At most ``MAX_BYTES`` of a stream; a longer one (``/dev/zero``) is refused."""
    try:
        # For most files no buffer of the greatest size need be made.
        content = stream.read(_USUAL)
        if len(content) == _USUAL:
            content += stream.read(MAX_BYTES + 1 - _USUAL)
    except (OSError, ValueError) as error:
        raise place.fault(explain_os_error(error)) from error
    if len(content) > MAX_BYTES:
        raise place.fault(
            f"larger than {MAX_BYTES // 2**20} MiB: not a template or a configuration file"
        )
    return content


def read_bytes(path: Path, place: Place) -> bytes:
    """The content of a file that the user or a model directory names."""
    try:
        with path.open("rb") as stream:
            return read_stream(stream, place)
    except (OSError, ValueError) as error:
        raise place.fault(explain_os_error(error), "check the path") from error


def decode(content: bytes, place: Place, *, empty_allowed: bool = False) -> str:
    """UTF-8 text, a byte order mark dropped, newlines as they are."""
    if not content and not empty_allowed:
        raise place.fault("is empty", "name a file that holds a chat template")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise place.fault("is UTF-16, not UTF-8", "save it as UTF-8")
    if b"\0" in content:
        raise place.fault("holds NUL bytes: not a text file", "save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise place.fault(
            f"is not UTF-8: byte 0x{content[error.start]:02x} in line {line}", "save it as UTF-8"
        ) from error


def parse_json(text: str, place: Place) -> Any:
    """Any JSON value. Duplicate keys are accepted as ``json`` accepts them: the last one wins."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise place.fault(
            f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}",
            REPAIR,
        ) from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise place.fault("is not usable JSON: it holds an enormous number", REPAIR) from error
    except RecursionError as error:
        raise place.fault("is not usable JSON: it is nested too deeply", REPAIR) from error


def parse_object(text: str, place: Place) -> Mapping[str, Any]:
    """A JSON object: what every configuration file of a model is."""
    value = parse_json(text, place)
    if not isinstance(value, dict):
        raise place.fault(
            f"is not a JSON object: it holds {json_kind(value)}",
            REPAIR,
        )
    return value


def json_kind(value: Any) -> str:
    """What a JSON value is, in JSON's own words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


@dataclass(frozen=True)
class Folder:
    """A directory of model files, and how it is printed: a path, or ``org/name`` for the hub."""

    target: str
    path: Path
    display: str

    def label(self, name: str) -> str:
        """How findings print a file of this folder."""
        return f"{self.display}/{name}" if self.display else name

    def place(self, name: str) -> Place:
        return Place(self.target, self.label(name))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in it; none where it cannot be listed."""
        try:
            changed = os.stat(self.path).st_mtime_ns
            if time.time_ns() - changed < _SETTLED:
                return frozenset(os.listdir(self.path))
            return _names(self.path, changed)
        except OSError:
            return frozenset()

    def has(self, name: str) -> bool:
        # Most files that are asked for are not there: the names say so without a look for each.
        return (name in self.names or not self.names or "/" in name) and is_file(self.path / name)

    def text(self, name: str) -> str:
        return decode(read_bytes(self.path / name, self.place(name)), self.place(name))

    def json_object(self, name: str) -> Mapping[str, Any]:
        """The object in a JSON file, or an empty one when the file is absent."""
        if not self.has(name):
            return {}
        return parse_object(self.text(name), self.place(name))


@lru_cache(maxsize=4)
def _names(path: Path, changed: int) -> frozenset[str]:
    """The names in a directory, as it has been since ``changed``."""
    return frozenset(os.listdir(path))


def local_folder(target: str, path: Path) -> Folder:
    """A directory on this machine, printed as its path without a leading ``./``."""
    return Folder(target, path, "" if str(path) == "." else str(path).rstrip(os.sep))
