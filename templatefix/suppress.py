"""Comments that accept a finding: ``{# templatefix: ignore[TF102] why #}``.

``ignore`` covers the next construct, ``ignore-file`` the whole template. A reason is required,
and a suppression must suppress something: otherwise it is itself reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from jinja2 import TemplateError

from templatefix.findings.finding import Finding, Location
from templatefix.findings.outcome import Hidden, Report
from templatefix.syntax.lexing import RawTokens
from templatefix.syntax.span import Lines, Position, normalise_newlines
from templatefix.syntax.template import parsing_environment

WITHOUT_REASON = "TF001"
UNUSED = "TF002"
#: The rules about suppressions themselves.
NAMES: Mapping[str, str] = {
    WITHOUT_REASON: "suppression-without-reason",
    UNUSED: "unused-suppression",
}

_MARK = "templatefix:"
_DIRECTIVE = re.compile(
    r"\s*templatefix:\s*(?P<kind>[\w-]+)\s*(?:\[(?P<codes>[^\]]*)\])?(?P<reason>.*)", re.S
)


@dataclass(frozen=True)
class Suppression:
    """``start`` and ``end`` enclose the comment; ``first`` and ``last`` what it covers, both None
    for the whole template."""

    codes: tuple[str, ...]
    reason: str
    start: Position
    end: Position
    first: Position | None
    last: Position | None
    whole: bool
    malformed: str = ""

    def covers(self, finding: Finding) -> bool:
        if self.malformed or finding.code not in self.codes:
            return False
        return self.whole or any(map(self._encloses, finding.locations))

    def _encloses(self, location: Location) -> bool:
        if self.first is None or self.last is None:
            return False
        start = (location.line, location.column)
        if self.first <= start < self.last:
            return True
        # A location that is only known by its line begins before the construct.
        end = (location.end_line, location.end_column)
        return location.line == location.end_line and start < self.last and self.first < end


def suppressions(text: str) -> list[Suppression]:
    """The suppressions in a template's comments. Empty for a template that cannot be lexed."""
    if _MARK not in text:
        return []
    source = normalise_newlines(text)
    try:
        raw = RawTokens(parsing_environment(), source)
    except (TemplateError, RecursionError, AssertionError, ValueError):
        return []
    lines = Lines(source)
    found = []
    for index, (_, kind, comment) in enumerate(raw.tokens):
        if kind == "comment" and (directive := _DIRECTIVE.fullmatch(comment)):
            start = lines.position(raw.starts[index - 1])
            end = lines.position(raw.ends[index + 1])
            found.append(_suppression(directive, start, end, _next_construct(raw, index, lines)))
    return found


def _suppression(
    directive: re.Match[str],
    start: Position,
    end: Position,
    construct: tuple[Position, Position] | None,
) -> Suppression:
    kind = directive["kind"]
    codes = tuple(code.strip() for code in (directive["codes"] or "").split(",") if code.strip())
    malformed = ""
    if kind not in ("ignore", "ignore-file"):
        malformed = f"{kind!r} is neither ignore nor ignore-file"
    elif not codes:
        malformed = "it names no code: ignore[TF102]"
    first, last = construct or (None, None)
    reason = " ".join(directive["reason"].split())
    return Suppression(codes, reason, start, end, first, last, kind == "ignore-file", malformed)


def _next_construct(raw: RawTokens, comment: int, lines: Lines) -> tuple[Position, Position] | None:
    """The tag, or the text with something in it, that follows a comment."""
    opened: int | None = None
    for index in range(comment + 1, len(raw.tokens)):
        _, kind, value = raw.tokens[index]
        if opened is None and (kind in ("block_begin", "variable_begin", "raw_begin")):
            opened = index
        if kind == "data" and value.strip():
            begin = raw.starts[index] + len(value) - len(value.lstrip())
            return lines.position(begin), lines.position(raw.ends[index])
        if opened is not None and kind in ("block_end", "variable_end", "raw_end"):
            span = raw.starts[opened], raw.ends[index]
            return lines.position(span[0]), lines.position(span[1])
    return None


def suppress(report: Report, *, complete: bool = True) -> Report:
    """The report without what its template suppresses, and with what is wrong about that.

    ``complete`` is whether everything was looked for: a suppression is only called unused then.
    """
    if report.source is None or report.fault is not None:
        return report
    found = suppressions(report.source)
    if not found:
        return report
    kept: list[Finding] = []
    hidden: list[Hidden] = []
    used: set[tuple[int, str]] = set()
    for finding in report.findings:
        covering = [index for index, each in enumerate(found) if each.covers(finding)]
        if covering:
            used.update((index, finding.code) for index in covering)
            hidden.append(Hidden(finding, "suppression", found[covering[0]].reason))
        else:
            kept.append(finding)
    complete = complete and report.verdict in ("preserving", "breaks")
    for index, suppression in enumerate(found):
        spent = {code for number, code in used if number == index}
        kept += _faults(suppression, spent, complete)
    return replace(report, findings=tuple(kept), hidden=report.hidden + tuple(hidden))


def _faults(suppression: Suppression, spent: set[str], complete: bool) -> Iterator[Finding]:
    if suppression.malformed:
        message = f"this suppression cannot be understood: {suppression.malformed}"
        yield _fault(UNUSED, message, suppression, "")
        return
    codes = ", ".join(suppression.codes)
    if not suppression.reason:
        yield _fault(
            WITHOUT_REASON, f"the suppression of {codes} gives no reason", suppression, codes
        )
    unspent = [code for code in suppression.codes if code not in spent]
    if complete and unspent:
        missing = ", ".join(unspent)
        where = "in this template" if suppression.whole else "in the next construct"
        yield _fault(UNUSED, f"there is no {missing} {where} to suppress", suppression, missing)


def _fault(code: str, message: str, suppression: Suppression, detail: str) -> Finding:
    (line, column), (end_line, end_column) = suppression.start, suppression.end
    return Finding(
        code,
        NAMES[code],
        "warning",
        "high",
        message,
        detail=detail,
        locations=(Location("source", line, column, end_line, end_column),),
    )
