"""Options from ``templatefix.toml`` or ``[tool.templatefix]`` of ``pyproject.toml``.

The nearest file above a target counts, ``templatefix.toml`` before ``pyproject.toml`` in the same
folder. What the command line says beats the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from templatefix.errors import TargetError
from templatefix.findings.finding import SEVERITIES
from templatefix.policy import POLICIES
from templatefix.source.links import followed

OWN_FILE = "templatefix.toml"
PROJECT_FILE = "pyproject.toml"
FAIL_ON = (*reversed(SEVERITIES), "never")
OUTPUT_FORMATS = ("text", "json", "sarif", "github", "html", "jsonl")
COLORS = ("auto", "always", "never")
#: Conversations that the search tries when nobody says otherwise.
DEFAULT_EXAMPLES = 20


@dataclass(frozen=True)
class Settings:
    """Every option of ``check``. Paths are absolute or relative to the working directory.

    ``plot`` can only be given on the command line.
    ``folder`` is where the settings file stands: ``per_file_ignores`` count from there.
    """

    tokenizer: str | None = None
    chat_template: str | None = None
    template_name: str | None = None
    revision: str | None = None
    offline: bool = False
    conversation: str | None = None
    recorded: str | None = None
    recover: bool = True
    kwargs: Mapping[str, Any] | None = None
    policy: str | None = None
    block_size: int = 16
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    fail_on: str = "warning"
    output_format: str = "text"
    output: str | None = None
    plot: str | None = None
    full: bool = False
    strict_coverage: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    baseline: str | None = None
    max_examples: int = DEFAULT_EXAMPLES
    search: bool = True
    seed: int = 0
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    folder: Path | None = None

    def with_given(self, given: Mapping[str, Any]) -> Settings:
        """These settings with what the command line gave in their place."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return Settings(**{**values, **given})


class _Wrong(Exception):
    """A value of the wrong type or range; the message says what is expected."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _Wrong("a string")
    if "\0" in value:
        raise _Wrong("a string without NUL characters")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("true or false")
    return value


def _whole(minimum: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise _Wrong(f"a whole number of at least {minimum}")
        return value

    return read


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices or not isinstance(value, str):
            raise _Wrong(f"one of {', '.join(choices)}")
        return value

    return read


def _codes(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise _Wrong("a list of codes")
    return tuple(value)


def _codes_of_files(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _Wrong("a table from file patterns to lists of codes")
    return {pattern: _codes(codes) for pattern, codes in value.items()}


def _json_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not _is_json(value):
        raise _Wrong("a table of values that JSON knows")
    return value


def _is_json(value: Any) -> bool:
    """TOML also knows dates and times, which no request to a server can carry."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, (str, int, float, bool))


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "tokenizer": _text,
    "chat-template": _text,
    "template-name": _text,
    "revision": _text,
    "offline": _flag,
    "conversation": _text,
    "recorded": _text,
    "recover": _flag,
    "kwargs": _json_table,
    "policy": _one_of(POLICIES),
    "block-size": _whole(1),
    "reasoning-parser": _text,
    "tool-call-parser": _text,
    "fail-on": _one_of(FAIL_ON),
    "output-format": _one_of(OUTPUT_FORMATS),
    "output": _text,
    "full": _flag,
    "strict-coverage": _flag,
    "select": _codes,
    "ignore": _codes,
    "per-file-ignores": _codes_of_files,
    "baseline": _text,
    "max-examples": _whole(0),
    "search": _flag,
    "seed": _whole(0),
    "quiet": _flag,
    "verbose": _flag,
    "color": _one_of(COLORS),
}
_PATHS = ("conversation", "recorded", "chat-template", "baseline", "output")


def find_settings(target: str) -> Path | None:
    """The settings file that counts for a target; a hub id or ``-`` stands in the working
    directory. Raises TargetError for a file on the way that is no TOML."""
    start = Path(target) if target != "-" and os.path.lexists(target) else Path.cwd()
    start = followed(start)
    for folder in ([start] if start.is_dir() else []) + list(start.parents):
        own, project = folder / OWN_FILE, folder / PROJECT_FILE
        if own.is_file():
            return own
        if project.is_file() and _project_table(_toml(project), project) is not None:
            return project
    return None


def read_settings(file: Path) -> Settings:
    """The settings in a file. Raises TargetError, naming the file and the key."""
    document = _toml(file)
    own = file.name != PROJECT_FILE
    table = document if own else _project_table(document, file) or {}
    values = {}
    for key, value in table.items():
        reader = _READERS.get(key)
        if reader is None:
            raise TargetError(str(file), f"unknown key {key!r}", _nearest(key))
        try:
            values[key.replace("-", "_")] = reader(value)
        except _Wrong as expected:
            raise TargetError(str(file), f"{key!r} must be {expected}") from None
    folder = followed(file).parent
    for key in _PATHS:
        name = key.replace("-", "_")
        if name in values and values[name] != "-":
            values[name] = str(folder / values[name])
    if "output" in values and not followed(values["output"]).is_relative_to(folder):
        # A settings file may come with a downloaded model: it must not write elsewhere.
        raise TargetError(str(file), "'output' must lie in the folder of the settings file")
    # A tokenizer is a path or a hub id: a path is what exists beside the settings file.
    if "tokenizer" in values and (folder / values["tokenizer"]).exists():
        values["tokenizer"] = str(folder / values["tokenizer"])
    return Settings(**values, folder=folder)


def _nearest(key: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key.replace("_", "-"), _READERS, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(_READERS)}"


def _project_table(document: Mapping[str, Any], file: Path) -> Mapping[str, Any] | None:
    tools = document.get("tool")
    table = tools.get("templatefix") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise TargetError(str(file), "'tool.templatefix' must be a table")
    return table


def _toml(file: Path) -> Mapping[str, Any]:
    import tomllib  # most folders have no settings

    try:
        content = file.read_bytes()
        # Other people's project files are none of our business.
        if file.name == PROJECT_FILE and b"templatefix" not in content:
            return {}
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise TargetError(str(file), f"cannot be read: {reason}", "check the path") from error
    except UnicodeDecodeError as error:
        raise TargetError(str(file), "is not UTF-8", "save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise TargetError(str(file), f"is not TOML: {error}") from error
    except RecursionError as error:
        raise TargetError(str(file), "is nested too deeply") from error
