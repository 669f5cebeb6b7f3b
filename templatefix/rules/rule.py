"""What a rule is: a code with its reasons, its examples and, for losses of reuse, a predicate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from templatefix.findings.evidence import Evidence
from templatefix.findings.finding import Severity

#: Whether a rule holds for a divergence: the finding's detail (maybe ``""``), or None.
Predicate = Callable[[Evidence], str | None]


@dataclass(frozen=True)
class Rule:
    """One code.

    ``summary`` is the sentence that a finding prints, ``why`` a paragraph for ``explain``.
    ``bad`` and ``good`` are templates of our own: the first shows the fault, the second is its
    repaired twin; ``special_tokens`` and ``kwargs`` are what those examples are checked with.
    ``holds`` is the predicate over a divergence, None for rules that look at something else.
    """

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    bad: str = ""
    good: str = ""
    holds: Predicate | None = None
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    kwargs: Mapping[str, Any] | None = None
