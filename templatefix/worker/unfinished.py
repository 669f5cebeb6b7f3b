"""The report of a template whose child did not live to make it."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.checking.limited import report_of
from templatefix.findings.outcome import Fault, Report
from templatefix.limits import Overrun
from templatefix.policy import policy_for
from templatefix.source.template import sha256
from templatefix.worker.job import Content, Job


@dataclass(frozen=True)
class About:
    """What the child says of a template before it looks into it."""

    target: str
    display: str
    name: str | None
    text: str
    content: Content | None = None


def unfinished(job: Job, about: About | None, why: Fault | Overrun) -> Report:
    """``about`` is None where no template had been begun."""
    about = about or About(job.target, job.part or job.target, None, "")
    text = about.text or None
    policy = policy_for(job.options.policy, about.text)
    if isinstance(why, Overrun):
        return report_of(
            why,
            target=about.target,
            display=about.display,
            name=about.name,
            sha256=sha256(text) if text else None,
            source=text,
            block_size=job.options.block_size,
            policy=policy,
        )
    return Report(
        target=about.target,
        display=about.display,
        template_name=about.name,
        template_sha256=None,
        tokenizer_source=None,
        tokenizer_approximate=False,
        block_size=job.options.block_size,
        policy=policy,
        verdict="error",
        fault=why,
    )
