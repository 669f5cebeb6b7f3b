"""Hazards of text that turns: with later messages, the clock, chance or a request's kwargs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jinja2 import nodes

from templatefix.findings.finding import Confidence, Severity
from templatefix.findings.hazard import Battery, Hazard, listed, places, quoted
from templatefix.findings.overlap import TURNING, Confirmed
from templatefix.syntax import Span, Template
from templatefix.syntax.dataflow import Influence, Origin, Where
from templatefix.syntax.pivots import Pivot, pivots

#: Position dependences that are told apart in one template.
CAUSES = 3

#: Confidences from the least to the greatest.
_RANK: tuple[Confidence, ...] = ("low", "medium", "high")

#: Directives of strftime that change within a day.
_FINE = frozenset("HIMSfpsXcTRrl")


def turning(template: Template, confirmed: Confirmed, battery: Battery) -> Iterator[Hazard]:
    """TF401, TF403 and TF404, each cause once."""
    found = pivots(template)
    yield from _positions(template, found, confirmed, battery)
    yield from _nondeterminism(template, found, confirmed)
    yield from _head_kwargs(template, found, confirmed)


def _shown(pivot: Pivot, confirmed: Confirmed) -> bool:
    return confirmed.covers((pivot.at, *pivot.outputs), TURNING)


def _positions(
    template: Template, found: Sequence[Pivot], confirmed: Confirmed, battery: Battery
) -> Iterator[Hazard]:
    ours = [pivot for pivot in found if pivot.influence is Influence.LATER_MESSAGES]
    shown = [pivot for pivot in ours if _shown(pivot, confirmed)]
    # What a run has blamed on `ns.last_user` at one place is no news at another.
    known = {name for pivot in shown for name in _causes(pivot)}
    open_ = [pivot for pivot in ours if pivot not in shown and not known & set(_causes(pivot))]
    for group in _by_cause(open_):
        spans = [pivot.at for pivot in group]
        confidence = max((_confidence(template, pivot) for pivot in group), key=_RANK.index)
        if battery == "clean" and confidence == "low":
            continue  # a guess that the runs do not bear out
        # Where conversations were run, they had their chance to show it.
        severity: Severity = "warning" if battery == "not-run" and confidence == "high" else "info"
        where = quoted(template, spans[0]) + (" and elsewhere" if len(spans) > 1 else "")
        yield Hazard(
            "TF401",
            severity,
            "low" if battery == "clean" else confidence,
            f"what is printed for a message depends on later messages: {where}",
            "later-messages",
            places(template, spans),
        )


def _causes(pivot: Pivot) -> list[str]:
    """The variables that hand the dependence on; ``loop.last`` is a cause of its own each time."""
    return [
        origin.name
        for origin in pivot.origins
        if not origin.name.startswith("loop.") and origin.name.isidentifier() is False
    ]


def _by_cause(found: Sequence[Pivot]) -> list[list[Pivot]]:
    """Pivots that share an origin's name stand together, in the order of the source."""
    groups: list[tuple[set[str], list[Pivot]]] = []
    for pivot in found:
        names = {origin.name for origin in pivot.origins}
        members = [pivot]
        apart = []
        for group in groups:
            if group[0] & names:
                names |= group[0]
                members = [*group[1], *members]
            else:
                apart.append(group)
        groups = [*apart, (names, members)]
    found_groups = [members for _, members in groups]
    if len(found_groups) <= CAUSES:
        return found_groups
    rest = [pivot for members in found_groups[CAUSES - 1 :] for pivot in members]
    return [*found_groups[: CAUSES - 1], rest]


def _confidence(template: Template, pivot: Pivot) -> Confidence:
    """``high`` where the end of the conversation itself is read, ``low`` where it may be."""
    found: list[Confidence] = ["low"]
    for origin in pivot.origins:
        text = template.text[origin.span.start : origin.span.end]
        if text.startswith("{%"):
            found.append("high" if _is_scan(template, origin.span) else "low")
        elif origin.name == "messages":  # handed to a macro or a function as a whole
            continue
        elif pivot.of_answer and ("loop.last" in origin.name or "loop.nextitem" in origin.name):
            # No request ends in an answer: in serving an answer is never last.
            found.append("medium")
        else:
            found.append("high")
    return max(found, key=_RANK.index)


def _is_scan(template: Template, assignment: Span) -> bool:
    """Whether an assignment stands in a loop of its own that looks for something."""
    loops = [
        place.node
        for place in template.placed(nodes.For)
        if isinstance(place.node, nodes.For)
        and template.span(place.node).start < assignment.start
        and assignment.end < template.span(place.node).end
    ]
    # Within another loop it may as well look back from there.
    return len(loops) == 1 and all(
        isinstance(part, nodes.TemplateData) and not part.data.strip()
        for output in template.below(loops[0], nodes.Output)
        for part in output.nodes
    )


def _nondeterminism(
    template: Template, found: Sequence[Pivot], confirmed: Confirmed
) -> Iterator[Hazard]:
    for influence, name in ((Influence.CLOCK, "the clock"), (Influence.RANDOMNESS, "chance")):
        ours = [
            pivot
            for pivot in found
            if pivot.influence is influence
            and pivot.where is not Where.TAIL
            and not _shown(pivot, confirmed)
        ]
        if not ours or (influence is Influence.CLOCK and confirmed.any_of("TF109")):
            continue
        origins = [origin for pivot in ours for origin in pivot.origins]
        is_daily = influence is Influence.CLOCK and not any(map(_is_fine, origins))
        where = "before" if ours[0].where is Where.HEAD else "inside"
        yield Hazard(
            "TF403",
            "info" if is_daily else "warning",
            "medium",
            f"{name} decides what is printed {where} the conversation: "
            f"{quoted(template, origins[0].span)}",
            str(influence),
            places(template, (origin.span for origin in origins)),
        )


def _is_fine(origin: Origin) -> bool:
    """Whether a call of strftime_now prints more than the date."""
    directives = {
        after.lstrip("-")[:1] for after in origin.name.split("%")[1:] if after.lstrip("-")
    }
    return not directives or bool(directives & _FINE)


def _head_kwargs(
    template: Template, found: Sequence[Pivot], confirmed: Confirmed
) -> Iterator[Hazard]:
    first: dict[str, Span] = {}
    for pivot in found:
        if pivot.influence is not Influence.KWARG or pivot.where is not Where.HEAD:
            continue
        if not _shown(pivot, confirmed):
            for origin in pivot.origins:
                first.setdefault(origin.name, pivot.at)
    if not first:
        return
    names = sorted(first)
    what = f"the kwarg{'s' if len(names) > 1 else ''} {listed(f'`{name}`' for name in names)}"
    yield Hazard(
        "TF404",
        "info",
        "high",
        f"{what} decide{'' if len(names) > 1 else 's'} what stands before the conversation",
        ",".join(names),
        places(template, first.values()),
    )
