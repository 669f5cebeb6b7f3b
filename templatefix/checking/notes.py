"""What is gathered while runs are made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from templatefix.findings.finding import Finding, Location
from templatefix.findings.outcome import NotEvaluated
from templatefix.replay.run import Made, Plan, Run
from templatefix.rules import RULES


@dataclass
class Notes:
    """What is gathered while runs are made."""

    runs: list[Run] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_evaluated: list[NotEvaluated] = field(default_factory=list)
    left_out: frozenset[str] = frozenset()
    made: Made = field(default_factory=dict)

    def skip(self, what: str, why: str) -> None:
        entry = NotEvaluated(what, why)
        if entry not in self.not_evaluated:
            self.not_evaluated.append(entry)


def note(notes: Notes, one: Plan, code: str, words: str, line: int | None = None) -> None:
    """Record what a run shows, once for the same words at the same place."""
    location = (Location("source", line, 1, line, 1),) if line else ()
    for i, known in enumerate(notes.findings):
        if known.code == code and known.detail == words and known.line == line:
            notes.findings[i] = replace(known, run_ids=(*known.run_ids, one.id))
            return
    rule = RULES[code]
    notes.findings.append(
        Finding(
            code,
            rule.name,
            rule.severity,
            "high",
            f"{rule.summary}: {words}" if words else rule.summary,
            detail=words,
            run_ids=(one.id,),
            kwargs=one.kwargs,
            client=one.client,
            scenario=one.scenario.name,
            locations=location,
        )
    )


def what(one: Plan) -> str:
    name = one.scenario.name + (f" ({one.scenario.variant})" if one.scenario.variant else "")
    return f"{name} under {spell(one.kwargs)}"


def spell(given: Mapping[str, Any]) -> str:
    if not given:
        return "default kwargs"
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in given.items())
