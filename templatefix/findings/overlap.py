"""Whether a run has already shown what the tree lets one fear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from templatefix.findings.blame import location
from templatefix.findings.finding import Finding, Location
from templatefix.syntax import Span, Template

#: Findings of runs that confirm a dependence on later messages, the clock or kwargs.
TURNING = frozenset("TF101 TF102 TF103 TF104 TF105 TF106 TF107 TF109 TF110 TF111".split())


class Confirmed:
    """The places that findings of runs have blamed."""

    def __init__(self, template: Template, found: Sequence[Finding]) -> None:
        self._template = template
        self._found = found

    def any_of(self, code: str) -> bool:
        return any(finding.code == code for finding in self._found)

    def covers(self, spans: Iterable[Span], codes: frozenset[str]) -> bool:
        """Whether a finding with one of the codes blames one of the spans, in any of its places."""
        ours = [location(self._template, span, "source") for span in spans]
        return any(
            _overlap(place, own) or _same_words(place, own)
            for finding in self._found
            if finding.code in codes
            for place in finding.locations
            for own in ours
        )

    def covers_line(self, span: Span, code: str) -> bool:
        """Whether a finding with the code blames a line of the span."""
        own = location(self._template, span, "source")
        return any(
            own.line <= (finding.line or 0) <= own.end_line
            for finding in self._found
            if finding.code == code
        )


def _overlap(one: Location, other: Location) -> bool:
    return (one.line, one.column) < (other.end_line, other.end_column) and (
        other.line,
        other.column,
    ) < (one.end_line, one.end_column)


def _same_words(one: Location, other: Location) -> bool:
    """One condition that is written twice is one cause."""
    return one.role == "cause" and bool(one.snippet) and one.snippet == other.snippet
