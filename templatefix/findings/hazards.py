"""What the tree alone tells against a template: faults that may show, and where.

A hazard is no proof. Where a run has shown the fault, its finding stands and the hazard is dropped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from templatefix.findings.finding import Finding, Fix
from templatefix.findings.hazard import Battery, Hazard, places, quoted
from templatefix.findings.overlap import Confirmed
from templatefix.findings.turning import turning
from templatefix.findings.values import values
from templatefix.syntax import Span, Template, kwargs
from templatefix.syntax.portability import nonportable
from templatefix.syntax.unsafe import COMPUTED, Probe, probes

#: A template with more nodes than this was not written by people (the largest known has some
#: thousand), and following its variables could take minutes.
LARGEST = 10_000


def hazards(template: Template, found: Sequence[Finding], battery: Battery) -> list[Hazard]:
    """TF401 to TF407, but for what ``found`` confirms already."""
    if left_out(template):
        return []
    confirmed = Confirmed(template, found)
    try:
        return [
            *turning(template, confirmed, battery),
            *values(template, confirmed, battery),
            *_engines(template),
        ]
    except RecursionError:  # it compiles at the very edge of what Jinja can nest
        return []


def left_out(template: Template) -> str:
    """Why a template's variables are not followed; "" where they are."""
    nodes = len(template.places)
    return f"the template has {nodes} nodes, more than {LARGEST}" if nodes > LARGEST else ""


def _engines(template: Template) -> Iterator[Hazard]:
    found = nonportable(template)
    if not found:
        return
    engines: dict[str, tuple[str, ...]] = {}
    first: dict[str, Span] = {}
    for construct in found:
        engines.setdefault(construct.name, construct.engines)
        first.setdefault(construct.name, construct.span)
    by_engines: dict[tuple[str, ...], list[str]] = {}
    for name, lacking in engines.items():
        by_engines.setdefault(lacking, []).append(f"`{name}`" if " " not in name else name)
    words = "; ".join(
        f"{', '.join(names)} ({', '.join(lacking)})" for lacking, names in by_engines.items()
    )
    yield Hazard(
        "TF407",
        "info",
        "high",
        f"other engines cannot do this, or do it otherwise: {words}",
        ", ".join(sorted(engines)),
        places(template, first.values()),
    )


def unsafe(template: Template) -> Iterator[Hazard]:
    """TF602: what reaches, or tries to reach, behind the values that a template is given."""
    by_kind: dict[str, list[Probe]] = {}
    for probe in probes(template):
        by_kind.setdefault(probe.kind, []).append(probe)
    for kind, ours in by_kind.items():
        computed = kind in COMPUTED
        yield Hazard(
            "TF602",
            "warning" if computed else "error",
            "medium" if computed else "high",
            f"{quoted(template, ours[0].span)} {ours[0].words}",
            kind,
            places(template, (probe.span for probe in ours)),
        )


def undeclared(template: Template, given: Iterable[str], known: frozenset[str]) -> list[Hazard]:
    """TF408: kwargs that a request sets and that the template never reads."""
    readable = {kwarg.name: kwarg for kwarg in kwargs(template)}
    found = []
    for name in given:
        if name in known:
            continue
        message = f"the template does not read the kwarg `{name}`: vLLM drops it without a word"
        nearest = difflib.get_close_matches(name, readable, n=1)
        fix = Fix(f"did you mean `{nearest[0]}`?", safe=False) if nearest else None
        found.append(Hazard("TF408", "warning", "high", message, name, fix=fix))
    return found
