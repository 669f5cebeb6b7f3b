"""A serve command as text for a shell, as JSON, as environment variables and as YAML.

The variable with the command's words is not called ``VLLM_...``: vLLM warns of every variable with
that prefix that it does not know.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from templatefix.report.json_report import to_json
from templatefix.report.visible import visible
from templatefix.serving.assemble import shell
from templatefix.serving.plan import CHECKED_WITH, WRITTEN_FOR, FlagValue, Serving, flag_text

ARGUMENTS = "SERVE_ARGS"
SCHEMA_VERSION = 1
_WIDTH = 100

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+")
# YAML 1.1 reads these as something other than text, and whatever begins like a number.
_PLAIN_YAML = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_][\w./@-]*", re.I)


def unprintable(plan: Serving) -> str | None:
    """The first word that no terminal should be given, or None."""
    every = [*plan.words, *(word for each in plan.beside for word in each.words)]
    return next((word for word in every if visible(word) != word), None)


def text(plan: Serving) -> str:
    """A shell script: the files where they are missing, then the command, one flag on a line."""
    lines: list[str] = []
    for file in plan.files:
        name = shlex.quote(file.name)
        lines += [f"# {file.purpose}", f"[ -e {name} ] || cat > {name} <<'EOF'"]
        lines += [*file.text.splitlines(), "EOF", ""]
    for other in plan.beside:
        lines += [f"# {other.purpose}:", f"#   {shell(other.words, other.environment)}", ""]
    parts = [f"{name}={shlex.quote(value)}" for name, value in plan.environment.items()]
    parts.append(shlex.join(plan.words[:3]))
    parts += [f"  {_flag(name, value)}" for name, value in plan.flags]
    return "\n".join([*lines, " \\\n".join(parts)]) + "\n"


def _flag(name: str, value: FlagValue) -> str:
    return name if value is True else f"{name} {shlex.quote(flag_text(value))}"


def document(plan: Serving, tool_version: str) -> str:
    """JSON, version 1. ``command`` and ``shell`` are the same command: words, and one line."""
    parts: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "tool_version": tool_version,
        "vllm": {"written_for": list(WRITTEN_FOR), "checked_with": CHECKED_WITH},
        "model": plan.model,
        "command": list(plan.words),
        "shell": one_line(plan),
        "flags": dict(plan.flags),
        "environment": dict(plan.environment),
        "files": [
            {"name": each.name, "purpose": each.purpose, "text": each.text} for each in plan.files
        ],
        "beside": [
            {
                "purpose": each.purpose,
                "command": list(each.words),
                "environment": dict(each.environment),
            }
            for each in plan.beside
        ],
        "parsers": {"reasoning": plan.parsers[0], "tool_call": plan.parsers[1]},
        "renderer": plan.renderer or "jinja",
        "verdict": plan.verdict,
        "warnings": [
            {"kind": each.kind, "reason": each.reason, "instead": list(each.instead)}
            for each in plan.warnings
        ],
        "notes": list(plan.notes),
    }
    return to_json(parts) + "\n"


def variables(plan: Serving) -> str:
    """``NAME=value`` lines for an environment file.

    systemd's ``EnvironmentFile=`` and a shell read them alike. The words of the command are one
    variable, quoted as a shell would have them: systemd splits it where it stands as
    ``$SERVE_ARGS`` (systemd.service(5), "Command lines"), a shell with ``eval``.
    """
    lines = [
        *_comments(plan),
        f"# systemd: ExecStart=/path/to/vllm serve ${ARGUMENTS}",
        f'# shell:   set -a; . ./FILE; eval "exec vllm serve ${ARGUMENTS}"',
        *(f"{name}={_value(value)}" for name, value in plan.environment.items()),
        f"{ARGUMENTS}={_value(shlex.join(plan.words[2:]))}",
    ]
    return "\n".join(lines) + "\n"


def _value(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return '"' + re.sub(r'(["\\$`])', r"\\\1", value) + '"'


def config(plan: Serving) -> str:
    """The file that vLLM's ``--config`` reads: flags without their dashes."""
    lines = [*_comments(plan)]
    before = " ".join(f"{name}={shlex.quote(value)}" for name, value in plan.environment.items())
    lines.append(f"# {before + ' ' if before else ''}vllm serve --config FILE.yaml")
    lines.append(f"model: {_scalar(plan.model)}")
    for name, value in plan.flags:
        lines += _entry(name.removeprefix("--"), value, "")
    return "\n".join(lines) + "\n"


def _comments(plan: Serving) -> Iterator[str]:
    """What has to exist beside a file of settings."""
    for file in plan.files:
        yield f"# {file.name}, {file.purpose}:"
        yield from (f"#   {line}" for line in file.text.splitlines())
    for other in plan.beside:
        yield f"# {other.purpose}:"
        yield f"#   {shell(other.words, other.environment)}"


def _entry(name: str, value: Any, indent: str) -> Iterator[str]:
    """A key and its value: mappings in blocks, all else on the line."""
    key = f"{indent}{_scalar(name)}:"
    if isinstance(value, Mapping) and value:
        yield key
        for inner, each in value.items():
            yield from _entry(str(inner), each, indent + "  ")
    elif isinstance(value, list) and value:
        yield key
        for each in value:
            yield f"{indent}  - {_flow(each)}"
    else:
        yield f"{key} {_flow(value)}"


def _flow(value: Any) -> str:
    """A value on one line, as YAML 1.1 reads it."""
    if isinstance(value, Mapping):
        inner = (f"{to_json(str(name))}: {_flow(each)}" for name, each in value.items())
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):
        # Without a point it would be a text.
        digits = repr(value)
        return digits if "." in digits else digits.replace("e", ".0e")
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN_YAML.fullmatch(value):
        return value
    return to_json(value)


def one_line(plan: Serving) -> str:
    """The command alone, without the files that it reads."""
    return shell(plan.words, plan.environment)


def advice(plan: Serving, *, notes: bool = True) -> str:
    """Warnings and notes for people; they go to stderr, beside the command."""
    lines: list[str] = []
    for each in plan.warnings:
        lines += _wrapped(f"warning: {each.reason}")
        # Ways out are commands and flags, to be copied: one line each.
        lines += [
            f"  {'or' if i else 'instead'}: {visible(way)}" for i, way in enumerate(each.instead)
        ]
    for each_note in plan.notes if notes else ():
        lines += _wrapped(f"note: {each_note}")
    return "".join(f"{line}\n" for line in lines)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(
        visible(line),
        _WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
