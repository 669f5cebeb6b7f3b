"""What a single prompt and the names in a template give away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jinja2 import nodes

from templatefix.chat.battery import PROBE
from templatefix.checking.notes import Notes
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import GREETING, Subject
from templatefix.dialect.author import Unspoken
from templatefix.findings.blame import location
from templatefix.findings.finding import Finding, Location, Severity
from templatefix.render import PINNED_CLOCK, Crashed, Refused
from templatefix.rules import RULES
from templatefix.syntax import (
    unknown_names,
)


def of_prompt(subject: Subject, notes: Notes) -> list[Finding]:
    """TF109 and TF204: what one prompt shows by itself."""
    found = []
    clock = _clock_finding(subject)
    if clock is not None:
        found.append(clock)
    if _ignores_generation_prompt(subject):
        rule = RULES["TF204"]
        found.append(Finding(rule.code, rule.name, rule.severity, "high", rule.summary))
    return found


def _clock_finding(subject: Subject) -> Finding | None:
    if "strftime_now" not in subject.template.text:
        return None
    rule = RULES["TF109"]
    steps = (("second", 1), ("hour", 3600), ("day", 86400))
    server = subject.server.ours  # whose clock can be set
    try:
        now = server.prompt(GREETING, None, {})
        for name, seconds in steps:
            later = server.prompt(
                GREETING, None, {}, clock=PINNED_CLOCK + timedelta(seconds=seconds)
            )
            if later != now:
                severity: Severity = "info" if name == "day" else "warning"
                words = f"{rule.summary}: it is another one {name} later"
                places = _clock_places(subject)
                return Finding(
                    rule.code,
                    rule.name,
                    severity,
                    "high",
                    words,
                    detail=name,
                    locations=places,
                )
    except (Refused, Crashed):
        return None
    return None


def _clock_places(subject: Subject) -> tuple[Location, ...]:
    """Where the template asks for the time."""
    return tuple(
        location(subject.parsed, subject.parsed.span(place.node), "source")
        for place in subject.parsed.places
        if isinstance(place.node, nodes.Call)
        and isinstance(place.node.node, nodes.Name)
        and place.node.node.name == "strftime_now"
    )


def _ignores_generation_prompt(subject: Subject) -> bool:
    """Whether answers begin with a header that no generation prompt ever prints."""
    try:
        prompt = subject.server.prompt(GREETING, None, {})
        if prompt != subject.server.prompt(GREETING, None, {}, generation_prompt=False):
            return False
        completion = subject.author.completion(GREETING, None, {}, PROBE.turns[0].answer)  # type: ignore[arg-type]
    except (Refused, Crashed):
        return False
    except Unspoken:
        return _header_without_prompt(subject, prompt)
    return _begins_with_header(completion)


def _header_without_prompt(subject: Subject, prompt: str) -> bool:
    from templatefix.chat.answer import Answer

    try:
        return _begins_with_header(
            subject.author.completion(GREETING, None, {}, Answer(None, "A city."))
        )
    except (Unspoken, Refused, Crashed):
        return False


def _begins_with_header(completion: Any) -> bool:
    written = completion.written
    if written is None or written.content is None:
        return False
    begin = written.reasoning[0] if written.reasoning else written.content[0]
    lead = written.text[:begin].strip()
    opener = completion.tags.open if completion.tags else ""
    return bool(lead.removesuffix(opener).strip())


def of_names(subject: Subject, options: CheckOptions) -> list[Finding]:
    """TF205: names that nobody supplies."""
    rule = RULES["TF205"]
    return [
        Finding(
            rule.code,
            rule.name,
            rule.severity,
            "medium",
            f"{rule.summary}: {unknown.name}",
            detail=unknown.name,
            locations=(
                Location(
                    "source",
                    unknown.line,
                    unknown.column,
                    unknown.line,
                    unknown.column + len(unknown.name),
                ),
            ),
        )
        for unknown in unknown_names(subject.parsed, subject.template.special_tokens)
    ]
