"""Markup from Jinja templates that ship with the package: whatever they print is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from templatefix.report.visible import head, visible

_HERE = Path(__file__).parent
#: No text is longer, in cells: a template may say what it likes at any length.
_LONGEST = 4000


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """A template of ``figure`` or ``page``, rendered.

    Every text is made visible (control characters, overrides of direction and the like become
    escapes) and escaped for HTML, at the one place where the templates print.
    """
    return _environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader([_HERE / "page", _HERE / "figure"]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printed(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return head(visible(value), _LONGEST)
    return value
