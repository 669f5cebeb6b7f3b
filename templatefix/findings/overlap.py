"""Whether a run has already shown what the tree lets one fear."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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

    def covers(self, spans: Collection[Span], codes: frozenset[str]) -> bool:
        """Whether a finding with one of the codes blames one of the spans, in any of its places."""
        text = self._template.text
        for finding in self._found:
            for place in finding.locations if finding.code in codes else ():
                blamed = self._span(place)
                # One condition that is written twice is one cause.
                words = place.snippet if place.role == "cause" else ""
                for span in spans:
                    if blamed.start < span.end and span.start < blamed.end:
                        return True
                    if words and words == text[span.start : span.end]:
                        return True
        return False

    def covers_line(self, span: Span, code: str) -> bool:
        """Whether a finding with the code blames a line of the span."""
        first = self._template.position(span.start).line
        last = self._template.position(span.end).line
        return any(
            first <= (finding.line or 0) <= last for finding in self._found if finding.code == code
        )

    def _span(self, place: Location) -> Span:
        lines = self._template.lines
        return Span(
            lines.offset(place.line, place.column), lines.offset(place.end_line, place.end_column)
        )
