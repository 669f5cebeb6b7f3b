"""Hazards of values: texts that are changed on their way, and values of another type, or none."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.findings.finding import Severity
from templatefix.findings.hazard import Battery, Hazard, listed, places, quoted
from templatefix.findings.overlap import Confirmed
from templatefix.syntax import Template
from templatefix.syntax.absent import unguarded_keys
from templatefix.syntax.arguments import unguarded_arguments
from templatefix.syntax.lossy import losses

_ALTERED = frozenset({"TF104"})


def values(template: Template, confirmed: Confirmed, battery: Battery) -> Iterator[Hazard]:
    """TF402, TF405 and TF406."""
    yield from _losses(template, confirmed, battery)
    yield from _arguments(template, confirmed)
    yield from _missing(template, confirmed)


def _losses(template: Template, confirmed: Confirmed, battery: Battery) -> Iterator[Hazard]:
    found = [loss for loss in losses(template) if not confirmed.covers((loss.span,), _ALTERED)]
    for field in ("content", "reasoning"):
        ours = [loss for loss in found if loss.field == field]
        if ours:
            operations = list(dict.fromkeys(name for loss in ours for name in loss.operations))
            yield Hazard(
                "TF402",
                "info",
                "low" if battery == "clean" else "medium",
                f"an answer's {field} passes {listed(operations)} before it is printed: "
                f"{quoted(template, ours[0].span)}",
                field,
                places(template, (loss.span for loss in ours)),
            )


def _arguments(template: Template, confirmed: Confirmed) -> Iterator[Hazard]:
    fears = {
        "dict": "fails where a client sends the call's arguments as a string",
        "text": "fails where the call's arguments are a dict, as vLLM makes them",
    }
    uses = unguarded_arguments(template)
    for taken_for, fear in fears.items():
        ours = [
            use
            for use in uses
            if use.taken_for == taken_for and not confirmed.covers_line(use.span, "TF203")
        ]
        if ours:
            # vLLM always hands over a dict.
            severity: Severity = "info" if taken_for == "dict" else "warning"
            yield Hazard(
                "TF405",
                severity,
                "medium",
                f"{quoted(template, ours[0].span)} {fear}",
                taken_for,
                places(template, (use.span for use in ours)),
            )


def _missing(template: Template, confirmed: Confirmed) -> Iterator[Hazard]:
    found = [
        missing
        for missing in unguarded_keys(template)
        if not confirmed.covers_line(missing.span, "TF203")
    ]
    for key in dict.fromkeys(missing.key for missing in found):
        ours = [missing for missing in found if missing.key == key]
        fear = "is None without tools" if key == "tools" else "may be missing, and then this fails"
        # Without tools at all a run would have failed: what is left stands under a condition.
        severity: Severity = "info" if key == "tools" else "warning"
        yield Hazard(
            "TF406",
            severity,
            "low" if key == "tools" else "medium",
            f"{quoted(template, ours[0].span)} {fear}",
            key,
            places(template, (missing.span for missing in ours)),
        )
