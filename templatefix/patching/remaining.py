"""What ``check`` still shows of a template once it is patched: nothing is left out."""

from __future__ import annotations

from dataclasses import replace

from templatefix.checking import CheckOptions, check
from templatefix.checking.limited import CODE
from templatefix.findings.finding import Finding
from templatefix.findings.repair import Remaining
from templatefix.patching.repair import PatchOptions
from templatefix.policy import policy_for
from templatefix.source.template import ChatTemplate

#: What the codes of findings begin with that lose reuse, or keep a check from seeing all that does.
LOSSES = ("TF1", CODE)
_SWITCH = "mode-switch"


def still_shown(
    template: ChatTemplate, text: str | None, options: PatchOptions
) -> tuple[Remaining, ...]:
    """The losses that a check of ``text`` finds, the gravest first, and the limits that it hits; of
    the template's own text where that is None.

    The check is the one that the options ask for, under the policy that it finds in the header.
    """
    template = template if text is None else replace(template, text=text)
    asked = options.afterwards or CheckOptions(
        block_size=options.block_size,
        kwargs=options.kwargs,
        reasoning_parser=options.reasoning_parser,
        tool_call_parser=options.tool_call_parser,
    )
    report = check(template, asked, policy_for(asked.policy, template.text))
    core = {run.id for run in report.runs if run.core}
    return tuple(
        _remaining(finding, core) for finding in report.findings if finding.code.startswith(LOSSES)
    )


def _remaining(finding: Finding, core: set[str]) -> Remaining:
    switched = bool(finding.run_ids) and all(map(_switches, finding.run_ids))
    return Remaining(
        finding.code,
        finding.severity,
        bool(finding.run_ids) and core.isdisjoint(finding.run_ids),
        finding.message,
        next(iter(finding.run_ids), None),
        len(finding.run_ids),
        finding.turn,
        finding.lost_tokens,
        switched,
        _of_switch(finding) if switched else "",
    )


def _switches(run_id: str) -> bool:
    return run_id.startswith(_SWITCH)


def _of_switch(finding: Finding) -> str:
    """Why a patch leaves what a change of the mode costs, in words for who runs the server."""
    scenarios = [run_id.partition("/")[0] for run_id in finding.run_ids]
    modes = [each.removeprefix(f"{_SWITCH}-").rpartition("-")[0] for each in scenarios]
    names = " or ".join(sorted({mode for mode in modes if mode})) or "its mode"
    if {"TF107", "TF111"} & {finding.code, finding.detail}:
        why = f"what stands before the past answers depends on {names}"
    else:
        why = (
            "a template is not told in which mode a past answer was written, and an answer without "
            "reasoning does not show it: all are rendered for the mode of the current request, "
            "which is right as long as the mode stays the same"
        )
    return f"a client that changes {names} between requests still loses tokens: {why}"
