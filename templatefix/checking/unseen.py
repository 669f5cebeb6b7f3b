"""What a server's prompts give away where no template tells how they come about."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from templatefix.chat.present import Unpresentable
from templatefix.checking.subject import GREETING, Subject
from templatefix.findings.finding import Finding
from templatefix.render import Crashed, Refused
from templatefix.replay.modes import Modes
from templatefix.report.json_report import to_json
from templatefix.rules import RULES

#: How prompts spell a day.
_SPELLINGS = ("%Y-%m-%d", "%Y/%m/%d", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y")


def of_served(subject: Subject, modes: Modes) -> Iterator[Finding]:
    """TF109 and TF404 for a server that renders without a template that we could read."""
    if subject.template.text:
        return
    spelled = _day_in_prompt(subject)
    if spelled:
        rule = RULES["TF109"]
        yield Finding(
            rule.code,
            rule.name,
            "info",
            "medium",
            f"{rule.summary}: it says {spelled!r}, the day of the check",
            detail="day",
        )
    yield from _kwargs_in_head(modes)


def _day_in_prompt(subject: Subject) -> str:
    """How the prompt spells the day; "" where it does not. Servers may be in another time zone."""
    try:
        prompt = subject.server.prompt(GREETING, None, {})
    except (Refused, Crashed, Unpresentable):
        return ""
    today = date.today()
    days = [today, today - timedelta(days=1), today + timedelta(days=1)]
    spelled = (day.strftime(each) for day in days for each in _SPELLINGS)
    return next((each for each in spelled if each in prompt), "")


def _kwargs_in_head(modes: Modes) -> Iterator[Finding]:
    values: dict[str, list[str]] = {}
    for setting in modes.settings:
        if setting.effect == "head":
            values.setdefault(setting.name, []).append(to_json(setting.value, indent=None))
    rule = RULES["TF404"]
    for name, seen in values.items():
        yield Finding(
            rule.code,
            rule.name,
            rule.severity,
            "high",
            f"{rule.summary}: {name} ({', '.join(seen)})",
            detail=name,
        )
