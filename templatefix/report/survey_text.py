"""What ``survey`` prints: one line for each template that breaks, and the counts."""

from __future__ import annotations

from collections.abc import Sequence

from templatefix.findings.survey import Surveyed, tally
from templatefix.report.visible import visible

_RUNGS = {
    1: "the default of a kwarg",
    2: "conditions widened",
    3: "outputs edited",
    4: "the branch for answers rebuilt",
    5: "the original folded into a macro",
}
_LONGEST_REASON = 240


def line(one: Surveyed, *, verbose: bool = False) -> str:
    """The line of one template, printable, with its end."""
    name = one.display + (f"[{one.template_name}]" if one.template_name else "")
    if one.outcome == "repaired":
        told = f"repaired by rung {one.rung}, {one.broken} broken"
    elif one.outcome == "not-repaired":
        clause = f"{one.clause}: " if one.clause else ""
        told = f"not repaired, {one.broken} broken: {clause}{_short(one.why or '')}"
    elif one.outcome == "preserves":
        told = "preserves"
    else:
        told = f"{one.outcome}: {_short(one.why or '')}"
    if verbose:
        tokens = one.tokenizer_source or "a stand-in"
        told += f" ({one.seconds:.1f} s; tokens of {tokens})"
    return visible(f"{name}: {told}") + "\n"


def summary(surveyed: Sequence[Surveyed], policy: str) -> str:
    """The counts: what breaks, what each rung repairs, and which clauses stand against the rest."""
    counts = tally(surveyed)
    repaired, left = counts.outcomes["repaired"], counts.outcomes["not-repaired"]
    preserving = counts.outcomes["preserves"]
    lines = [
        f"{_count(counts.templates, 'template', 'templates')} under {policy}: "
        f"{_count(preserving, 'preserves', 'preserve')}, "
        f"{_count(counts.breaking, 'breaks', 'break')}; "
        f"{_count(repaired, 'of these is', 'of these are')} repaired, "
        f"{_count(left, 'is not', 'are not')}"
    ]
    lines += [
        f"  rung {rung} ({_RUNGS.get(rung, 'another change')}): {count}"
        for rung, count in counts.rungs.items()
    ]
    if counts.clauses:
        against = ", ".join(f"{clause} {count}" for clause, count in counts.clauses.items())
        lines.append(f"  not repaired, by the clause that the last candidate broke: {against}")
    unusable, skipped = counts.outcomes["unusable"], counts.outcomes["skipped"]
    if unusable or skipped:
        lines.append(f"  {unusable} unusable, {skipped} no chat templates")
    excluded = [each for each in surveyed if each.excluded]
    if excluded:
        lines.append(f"  {len(excluded)} still drop what {policy} leaves as it is")
    return "".join(f"{visible(each)}\n" for each in lines)


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _short(words: str) -> str:
    flat = " ".join(words.split())
    return flat if len(flat) <= _LONGEST_REASON else flat[: _LONGEST_REASON - 3] + "..."
