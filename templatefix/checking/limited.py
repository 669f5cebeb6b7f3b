"""TF601: what of a template's code took more than it may."""

from __future__ import annotations

from collections.abc import Iterable

from templatefix.checking.notes import spell
from templatefix.errors import TargetError
from templatefix.findings.finding import Finding, Location
from templatefix.findings.outcome import Fault, Report
from templatefix.limits import Overrun
from templatefix.render import OverLimit
from templatefix.rules import RULES
from templatefix.source.template import ChatTemplate
from templatefix.syntax import located

CODE = "TF601"
HINT = "mend the template, or give it more with --time-limit or --memory-limit"


def of_overruns(overruns: Iterable[Overrun]) -> list[Finding]:
    """One finding for each limit that was hit at a place, with the first request that hit it."""
    found: dict[tuple[str, str, int | None], Finding] = {}
    for each in overruns:
        # A limit that grows tighter with every overrun is one and the same.
        key = (each.kind, each.doing, each.line)
        if key not in found:
            found[key] = finding_of(each)
    return list(found.values())


def finding_of(overrun: Overrun) -> Finding:
    """The finding for one overrun."""
    rule = RULES[CODE]
    line = overrun.line
    return Finding(
        rule.code,
        rule.name,
        rule.severity,
        "high",
        f"{rule.summary}: {words(overrun)}",
        detail=f"{overrun.kind}/{overrun.doing}",
        kwargs=overrun.kwargs or {},
        scenario=overrun.scenario,
        turn=overrun.turn,
        locations=(Location("source", line, 1, line, 1),) if line else (),
    )


def words(overrun: Overrun) -> str:
    """What hit which limit: ``rendering takes more than 10 s (tools, turn 3, x=true)``."""
    request = []
    if overrun.turn is not None:
        request = [f"turn {overrun.turn}", spell(overrun.kwargs or {})]
        if overrun.scenario is not None:
            request.insert(0, overrun.scenario)
    more = f" ({', '.join(request)})" if request else ""
    return f"{overrun.doing} {overrun.words}{more}"


def too_much(template: ChatTemplate, over: OverLimit) -> TargetError:
    """The error of a target that hit a limit where nothing can be said of it without."""
    return TargetError(template.display, located(over.message, over.line), HINT, CODE)


def report_of(
    overrun: Overrun,
    *,
    target: str,
    display: str,
    name: str | None,
    sha256: str | None,
    source: str | None,
    block_size: int,
    policy: str,
) -> Report:
    """The report of a template that could not be checked to its end."""
    finding = finding_of(overrun)
    return Report(
        target,
        display,
        name,
        sha256,
        None,
        True,
        block_size,
        policy,
        "error",
        Fault(CODE, finding.message, HINT),
        findings=(finding,),
        source=source,
    )
