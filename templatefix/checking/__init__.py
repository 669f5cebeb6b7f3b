"""One template checked: the plan of runs, their replay, and what they come to."""

from __future__ import annotations

from templatefix.chat.conversation import Scenario
from templatefix.checking.breaks import (
    classified,
    findings_of,
    left_out_by,
    stop_mismatches,
    with_requests,
    without_parser_losses,
)
from templatefix.checking.limited import of_overruns
from templatefix.checking.notes import Notes, spell
from templatefix.checking.options import CheckOptions
from templatefix.checking.outcome import report, unparsable
from templatefix.checking.prompts import of_names, of_prompt
from templatefix.checking.runs import make_run, modes_of, plans
from templatefix.checking.search import search
from templatefix.checking.static import of_tree
from templatefix.checking.subject import Subject, prepare
from templatefix.checking.unseen import of_served
from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report
from templatefix.limits import overruns
from templatefix.render import SyntaxFault
from templatefix.render.remote import Remote
from templatefix.source.template import ChatTemplate
from templatefix.syntax import Unparsable

__all__ = ["CheckOptions", "Subject", "check", "prepare"]


def check(
    template: ChatTemplate,
    options: CheckOptions,
    policy: str = "keep-reasoning",
    scenario: Scenario | None = None,
    remote: Remote | None = None,
) -> Report:
    """Check one template. ``scenario`` is the conversation of ``options``, already read.

    With ``remote``, prompts and answers are that server's; the template's text may be empty then.
    Raises ``TargetError`` when the tokenizer's files are unusable, a parser is not known, or the
    server fails.
    """
    try:
        subject = prepare(template, options, remote)
    except (Unparsable, SyntaxFault) as fault:
        return unparsable(template, options, policy, fault)
    modes = modes_of(subject, options)
    notes = Notes()
    if subject.without_lines:
        notes.skip("the lines of findings", subject.without_lines)
    for setting in modes.left_out:
        notes.skip(f"kwargs {spell(setting)}", "more modes than are swept")
    for setting, same in modes.alike:
        notes.skip(f"kwargs {spell(setting)}", f"renders as {spell(same)} does")
    for name in modes.without_effect:
        notes.skip(f"kwarg {name}", "no value of it changed what was tried")
    for one in plans(subject, modes, options, scenario, notes):
        make_run(one, subject, options.block_size, notes)
    breaks = classified(notes.runs, subject)
    notes.runs = without_parser_losses(notes.runs, breaks)
    notes.left_out = left_out_by(policy, breaks)
    searched: list[Finding] = []
    if options.max_examples > 0 and scenario is None:
        searched = search(
            subject,
            modes,
            breaks,
            notes,
            policy=policy,
            block_size=options.block_size,
            max_examples=options.max_examples,
            seed=options.seed,
        )
    findings = [
        *findings_of(breaks, notes.runs, modes, subject, policy, options),
        *searched,
        *stop_mismatches(notes.runs, subject),
        *notes.findings,
        *of_prompt(subject, notes),
        *of_served(subject, modes),
        *of_names(subject, options),
    ]
    findings += of_tree(subject, options, notes, findings)
    findings += of_overruns(overruns())
    findings = with_requests(findings, subject.template, options)
    return report(subject, options, policy, notes, findings)
