"""A hazard: a finding in the making, without what its rule says of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from templatefix.findings.blame import location
from templatefix.findings.finding import Confidence, Fix, Location, Severity
from templatefix.syntax import Span, Template

#: What the runs over the fixed conversations came to.
Battery = Literal["clean", "broken", "not-run"]

#: Places that one finding names at most, and characters of an expression in a message.
PLACES, WORDS = 8, 60


@dataclass(frozen=True)
class Hazard:
    """``locations`` are in the order of the source; ``detail`` tells hazards of one code apart."""

    code: str
    severity: Severity
    confidence: Confidence
    message: str
    detail: str = ""
    locations: tuple[Location, ...] = ()
    fix: Fix | None = None


def places(template: Template, spans: Iterable[Span], note: str = "") -> tuple[Location, ...]:
    """Source locations, each once, in the order of the source."""
    chosen = sorted(set(spans))[:PLACES]
    return tuple(location(template, span, "source", note) for span in chosen)


def quoted(template: Template, span: Span) -> str:
    """An expression of the template on one line, in backquotes."""
    words = " ".join(template.text[span.start : span.end].split())
    return f"`{words if len(words) <= WORDS else words[: WORDS - 3] + '...'}`"


def listed(names: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
