"""The report for people: one line per clean target, an explanation per finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report, Verdict
from templatefix.findings.run_outcome import RunOutcome
from templatefix.report.coverage import coverage_lines, run_lines
from templatefix.report.edition import gravest_first, place
from templatefix.report.excerpt import code_frame, divergence_lines
from templatefix.report.figure.reuse import figure_of
from templatefix.report.figure.text import figure_lines
from templatefix.report.json_report import to_json
from templatefix.report.kwargs import kwargs_text
from templatefix.report.recorded_text import recorded_lines
from templatefix.report.visible import cells, head, visible, wrapped

#: Verdicts in words, in the order in which they are counted.
_VERDICTS: Mapping[Verdict, str] = {
    "preserving": "preserving",
    "breaks": "broken",
    "not-evaluated": "not evaluated",
    "error": "unreadable",
}

# Longer counterexamples are left to the JSON report.
_LONGEST_CONVERSATION = 2000

_COLOURS = {
    "error": "1;31",
    "warning": "1;33",
    "info": "36",
    "good": "32",
    "bold": "1",
    "faint": "2",
    "caret": "33",
    "stream": "32",
    "prompt": "31",
    "fix": "36",
    "reused": "34",
    "again": "31",
    "new": "2",
}
_BARS = {"█": "reused", "▒": "again", "░": "new"}


@dataclass(frozen=True)
class TextStyle:
    """``width`` is in terminal cells. ``quiet`` leaves findings and faults only, ``infos`` is
    whether informative findings are among them."""

    width: int = 100
    colour: bool = False
    quiet: bool = False
    verbose: bool = False
    infos: bool = True

    def paint(self, text: str, kind: str) -> str:
        code = _COLOURS.get(kind)
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text

    def wrap(self, text: str, indent: str = "   ", first: str | None = None) -> list[str]:
        """The text in lines, safe to print; ``first`` begins the first line."""
        return wrapped(text, self.width, indent, first)


class TextReport:
    """The report on templates that come one after another."""

    def __init__(self, style: TextStyle) -> None:
        self._style = style
        self._lines: list[str] = []
        self._tally = Tally()

    def add(self, report: Report) -> None:
        style, lines = self._style, self._lines
        shown = report_lines(report, style)
        # A blank line sets off what has something to say.
        if lines and (len(shown) > 2 or lines[-1].startswith(" ")) and shown and not style.quiet:
            lines.append("")
        lines += shown
        if report.skipped is None:
            self._tally.add(report)

    def text(self) -> str:
        """The whole report; empty, or lines that each end in a newline."""
        end = []
        if self._tally.total > 1 and not self._style.quiet:
            end = ["", self._style.paint(self._tally.words(), "bold")]
        return "".join(line + "\n" for line in (*self._lines, *end))


def text_report(reports: Iterable[Report], style: TextStyle) -> str:
    """The report on all of them."""
    whole = TextReport(style)
    for report in reports:
        whole.add(report)
    return whole.text()


class Tally:
    """How many templates came to which verdict."""

    def __init__(self, reports: Iterable[Report] = ()) -> None:
        self._counted: Counter[str] = Counter()
        for report in reports:
            self.add(report)

    @property
    def total(self) -> int:
        return self._counted.total()

    def add(self, report: Report) -> None:
        kept = report.keeps_to_its_policy
        self._counted[under_policy(report) if kept else _VERDICTS[report.verdict]] += 1

    def words(self) -> str:
        counted, words = self._counted, list(_VERDICTS.values())
        order = ("preserving", *sorted(counted.keys() - set(words)), *words[1:])
        parts = [f"{counted[word]} {word}" for word in order if counted[word]]
        return f"{self.total} templates: {', '.join(parts)}"


def under_policy(report: Report) -> str:
    """The verdict on a template that drops only what its policy leaves out."""
    return f"preserving under {report.policy}"


def report_lines(report: Report, style: TextStyle) -> list[str]:
    """The verdict, the findings from the gravest to the mildest, and the coverage."""
    if report.skipped is not None:
        skipped = f"{visible(place(report))}: skipped: {visible(report.skipped)}"
        return [style.paint(skipped, "faint")] if style.verbose else []
    lines = [] if style.quiet and report.fault is None else _verdict(report, style)
    reported = gravest_first(report.findings)
    if report.fault is not None:
        reported = [finding for finding in reported if finding.code != report.fault.code]
    if not style.infos:
        reported = [finding for finding in reported if finding.severity != "info"]
    brief = [each for each in reported if each.severity == "info" and not style.verbose]
    for number, finding in enumerate(each for each in reported if each not in brief):
        lines += ([""] if number else []) + _finding(finding, report, style)
    lines += [_brief(finding, report, style) for finding in brief]
    if not style.quiet:
        if report.verdict == "breaks":
            lines += _figure(report, style)
        if report.recorded is not None:
            lines += [""] if len(lines) > 1 else []
            lines += recorded_lines(report.recorded, report, style.width, verbose=style.verbose)
        if style.verbose:
            lines += [style.paint(line, "faint") for line in run_lines(report, style.width)]
        lines += [
            style.paint(line, "faint")
            for line in coverage_lines(report, style.width, verbose=style.verbose)
        ]
    return lines


#: The figure is never wider, in cells, whatever the terminal allows.
_FIGURE = 80


def _figure(report: Report, style: TextStyle) -> list[str]:
    """The prompts of a few turns as bars, after a blank line."""
    shown = list(figure_lines(figure_of(report, ""), min(style.width, _FIGURE) - 3))
    painted = [
        re.sub("█+|▒+|░+", lambda found: style.paint(found[0], _BARS[found[0][0]]), line)
        for line in shown
    ]
    return ["", *(f"   {line}" for line in painted)] if shown else []


def _verdict(report: Report, style: TextStyle) -> list[str]:
    name = visible(place(report))
    if report.fault is not None:
        fault = report.fault
        hint = f" ({fault.hint})" if fault.hint else ""
        lines = [f.line for f in report.findings if f.code == fault.code and f.line is not None]
        name += f":{lines[0]}" if lines else ""
        label = style.paint("error", "error")
        return [f"{name}: {label}: {fault.code} {visible(fault.message)}{visible(hint)}"]
    if report.verdict == "preserving":
        return [f"{name}: {style.paint('preserving', 'good')}{_counted(report)}"]
    if report.keeps_to_its_policy:
        return [f"{name}: {style.paint(under_policy(report), 'good')}{_counted(report)}"]
    if report.verdict == "breaks":
        return [f"{name}: {style.paint('breaks', 'error')}{_counted(report)}"]
    return [f"{name}: {style.paint('not evaluated', 'warning')}{_counted(report)}"]


def _counted(report: Report) -> str:
    """The runs behind a verdict and the findings below it."""
    parts = []
    core = [run for run in report.runs if run.core and run.preserving is not None]
    broken = sum(run.preserving is False for run in core)
    if core and report.keeps_to_its_policy:
        dropped = f"reasoning is dropped in {broken} of {len(core)} core runs"
        parts.append(f"{dropped}, which it leaves as it is")
    elif core and report.verdict == "breaks":
        parts.append(f"tokens are lost in {broken} of {len(core)} core runs")
    elif core:
        parts.append(f"{len(core)} core runs")
    counts = [
        _plural(number, severity)
        for severity in ("error", "warning", "info")
        if (number := sum(finding.severity == severity for finding in report.findings))
    ]
    if counts:
        parts.append(", ".join(counts))
    hidden = len(report.hidden)
    if hidden:
        parts.append(f"{hidden} hidden by comments or the baseline")
    return f" ({'; '.join(parts)})" if parts else ""


def _plural(number: int, severity: str) -> str:
    return f"{number} {severity}{'s' if number > 1 and severity != 'info' else ''}"


def _where(finding: Finding, report: Report) -> str:
    name = visible(place(report))
    if finding.line is None:
        return name
    # For a template inside a JSON or GGUF file these count within the template.
    return f"{name}:{finding.line}:{finding.column}"


def _brief(finding: Finding, report: Report, style: TextStyle) -> str:
    where = _where(finding, report)
    code = style.paint(f"{finding.code} {finding.name}", finding.severity)
    taken = len(where) + len(finding.code) + len(finding.name) + len("  " + " " + ": ")
    room = style.width - taken
    # After a long path the line may be longer than the width: a stump says nothing.
    message = head(visible(finding.message), room if room >= 40 else 60)
    return f"{where}  {code}: {message}"


def _finding(finding: Finding, report: Report, style: TextStyle) -> list[str]:
    code = style.paint(f"{finding.code} {finding.name}", finding.severity)
    circumstances = told_circumstances(finding)
    heading = f"{_where(finding, report)}  {finding.code} {finding.name}"
    fits = cells(f"{heading}  ({circumstances})") <= style.width
    lines = [f"{style.paint(_where(finding, report), 'bold')}  {code}"]
    if circumstances and fits:
        lines[0] += f"  ({circumstances})"
    elif circumstances:
        lines += style.wrap(f"({circumstances})")
    lines += style.wrap(finding.message)
    indent = "   "
    room = style.width - len(indent)
    for line in code_frame(finding.locations, report.source, room):
        lines.append(indent + style.paint(line.text, line.kind))
    if _says_more(finding):
        lines += style.wrap(finding.explanation)
    if finding.divergence is not None:
        for line in divergence_lines(finding.divergence, room):
            lines.append(indent + style.paint(line.text, line.kind))
    lines += style.wrap(told_loss(finding, report))
    if finding.also:
        lines += style.wrap(f"also: {', '.join(finding.also)}")
    if style.verbose:
        lines += _particulars(finding, style)
    if finding.conversation is not None:
        lines += _conversation(finding.conversation, style)
    if finding.fix is not None:
        unsafe = "" if finding.fix.safe else " (changes what the model sees)"
        fix = style.wrap(f"{finding.fix.text}{unsafe}", "        ", "   fix: ")
        lines += [style.paint(line, "fix") for line in fix]
    return lines


def _says_more(finding: Finding) -> bool:
    """Whether the explanation is not yet said by the message or the note beside the caret."""
    note = finding.locations[0].note if finding.locations else ""
    said = finding.explanation in ("", finding.message) or (note and note in finding.explanation)
    return not said


#: How a client that is not the usual one gets and replays answers.
_FORMS = {
    "inline": "reasoning inside the content",
    "stripped": "fields without outer whitespace",
    "verbatim": "fields verbatim",
}


def told_circumstances(finding: Finding) -> str:
    """The mode, client, form, conversation and turn that a finding is told with."""
    parts = [kwargs_text(finding.kwargs)] if finding.kwargs else []
    if finding.client:
        parts.append(f"{finding.client} client")
    if finding.replay in _FORMS:
        parts.append(_FORMS[finding.replay])
    if finding.scenario:
        parts.append(finding.scenario)
    if finding.turn is not None:
        parts.append(f"turn {finding.turn}")
    return visible(", ".join(parts))


def told_loss(finding: Finding, report: Report) -> str:
    """Where reuse stops and what that costs, in tokens; ``~`` marks a stand-in tokenizer."""
    about = "~" if report.tokenizer_approximate else ""
    parts = []
    if finding.reused is not None and finding.total is not None:
        stop = f"reuse stops at token {about}{finding.reused} of {about}{finding.total}"
        if finding.cached is not None:
            stop += f" ({about}{finding.cached} in full blocks of {report.block_size})"
        parts.append(stop)
    lost = []
    run = _run_of(finding, report)
    if finding.lost_here is not None:
        kind = "generated" if _only_generated(finding, run) else "cached"
        lost.append(f"{about}{finding.lost_here} {kind} tokens unusable here")
    if finding.requests is not None:
        noun = "request" if finding.requests == 1 else "requests"
        lost.append(f"{about}{finding.lost_tokens or 0} in {finding.requests} {noun}")
    elif finding.lost_tokens:
        turns = len(run.turns) if run is not None else 0
        over = f" over {turns} turns" if turns > 1 else " over the conversation"
        if not lost:
            lost.append(f"{about}{finding.lost_tokens} tokens unusable{over}")
        elif turns != 2:
            lost.append(f"{about}{finding.lost_tokens}{over}")
    return "; ".join([*parts, *([", ".join(lost)] if lost else [])])


def _run_of(finding: Finding, report: Report) -> RunOutcome | None:
    first = finding.run_ids[:1]
    return next((run for run in report.runs if (run.id,) == first), None)


def _only_generated(finding: Finding, run: RunOutcome | None) -> bool:
    """Whether everything that is lost in this turn was written by the model."""
    if run is None or finding.turn is None or finding.reused is None:
        return False
    before = [row.prompt_tokens for row in run.turns if row.turn == finding.turn - 1]
    return bool(before) and finding.reused >= before[0]


def _particulars(finding: Finding, style: TextStyle) -> list[str]:
    parts = [f"severity {finding.severity}, confidence {finding.confidence}"]
    if finding.detail:
        parts.append(f"detail {finding.detail}")
    parts.append(f"fingerprint {finding.fingerprint}")
    lines = style.wrap("; ".join(parts))
    if finding.run_ids:
        lines += style.wrap(f"runs: {', '.join(finding.run_ids)}")
    if finding.divergence is not None:
        for name in ("stream", "prompt"):
            ids = getattr(finding.divergence, name).ids
            lines += style.wrap(f"{name} ids: {' '.join(map(str, ids))}")
    return [style.paint(line, "faint") for line in lines]


def _conversation(conversation: Mapping[str, Any], style: TextStyle) -> list[str]:
    """A counterexample on one line, so that it can be copied into a file."""
    document = to_json(conversation, indent=None)
    if len(document) > _LONGEST_CONVERSATION:
        return style.wrap("conversation: too long to show; --output-format json has it")
    return ["   conversation that shows it (for --conversation):", f"   {document}"]
