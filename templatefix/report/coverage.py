"""What was evaluated and what was not: silence about a scenario would read as "clean"."""

from __future__ import annotations

from templatefix.findings.outcome import NotEvaluated, Report
from templatefix.findings.run_outcome import RunOutcome
from templatefix.report.json_report import to_json
from templatefix.report.visible import head, visible, wrapped

_INDENT = "   "
# Without --verbose: how many reasons are shown, and the longest of them in cells.
_REASONS = 3
_REASON = 90

ATTENTION = {
    "sliding-window": "sliding-window attention: real hits may be shorter than those shown",
    "hybrid": "recurrent layers: real hits may be shorter than those shown",
}


def coverage_lines(report: Report, width: int, *, verbose: bool) -> list[str]:
    """One or a few lines; none where nothing was tried."""
    if report.fault is not None:
        return []
    coverage = report.coverage
    parts = [
        _counted(len(coverage.modes), "mode"),
        _counted(len(coverage.scenarios), "scenario"),
        _counted(len(coverage.clients), "client"),
    ]
    if report.recorded is not None:
        parts = [_counted(report.recorded.requests, "recorded request"), parts[0]]
    lines = _wrap(f"evaluated: {', '.join(parts)}; {circumstances(report)}", width)
    if report.attention is not None:
        note = ATTENTION.get(report.attention, "real hits may be shorter than those shown")
        lines += _wrap(f"hits are an upper bound ({note})", width)
    if coverage.not_evaluated:
        lines += _not_evaluated(coverage.not_evaluated, width, verbose)
    if verbose:
        for hidden in report.hidden:
            reason = f": {hidden.reason}" if hidden.reason else ""
            lines += _wrap(f"hidden by {hidden.by}: {hidden.finding.code}{reason}", width)
    return lines


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def circumstances(report: Report) -> str:
    """What the figures of a report rest on."""
    if report.tokenizer_approximate:
        tokenizer = "stand-in tokenizer (token figures are approximate)"
    else:
        tokenizer = f"tokenizer {report.tokenizer_source}"
    parts = [tokenizer, f"blocks of {report.block_size}", f"policy {report.policy}"]
    if report.renderer != "jinja":
        parts.insert(0, f"rendered by {report.renderer}")
    reasoning, tool_call = report.parsers
    if reasoning or tool_call:
        parts.append(f"parsers {reasoning or 'none'}/{tool_call or 'none'}")
    return ", ".join(parts)


def _not_evaluated(parts: tuple[NotEvaluated, ...], width: int, verbose: bool) -> list[str]:
    """What was left out, grouped by the reason."""
    reasons: dict[str, list[str]] = {}
    for part in parts:
        reasons.setdefault(part.why, []).append(part.what)
    if verbose:
        lines = [f"{_INDENT}not evaluated:"]
        for why, whats in reasons.items():
            lines += wrapped(
                f"{', '.join(whats)}: {why}", width, _INDENT + "    ", _INDENT + "  - "
            )
        return lines
    shown = []
    for why, whats in list(reasons.items())[:_REASONS]:
        names = ", ".join(whats) if len(whats) <= 3 else f"{whats[0]} and {len(whats) - 1} more"
        shown.append(f"{names} ({head(visible(why), _REASON)})")
    if len(reasons) > _REASONS:
        rest = sum(len(whats) for whats in list(reasons.values())[_REASONS:])
        shown.append(f"{rest} more (see --verbose)")
    return _wrap(f"not evaluated: {'; '.join(shown)}", width)


def run_lines(report: Report, width: int) -> list[str]:
    """Every run on a line, by mode: what of the streams before was found in the cache."""
    modes: dict[str, list[RunOutcome]] = {}
    for run in report.runs:
        kwargs = (f"{name}={to_json(value, indent=None)}" for name, value in run.kwargs.items())
        modes.setdefault(", ".join(kwargs) or "default mode", []).append(run)
    lines: list[str] = []
    for mode, runs in modes.items():
        lines.append(visible(f"{_INDENT}{mode} (cached of reusable tokens, all turns)"))
        rows = [_run_row(run, report) for run in runs]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for name, who, found, outcome in rows:
            line = f"{name:<{widths[0]}}  {who:<{widths[1]}}  {found:>{widths[2]}}  {outcome}"
            lines.append(head(visible(f"{_INDENT}  {line}"), width))
    return lines


def _run_row(run: RunOutcome, report: Report) -> tuple[str, str, str, str]:
    """Conversation, client and form of the answers, hits of ideal hits, and what came of it."""
    verdicts = {True: "preserving", False: "breaks", None: "not judged"}
    outcome = verdicts[run.preserving]
    if run.lost_to is not None:
        outcome = f"lost to the {run.lost_to}"
    about = "~" if report.tokenizer_approximate else ""
    ideal = sum(row.ideal_tokens or 0 for row in run.turns)
    hits = sum(row.hit_tokens or 0 for row in run.turns)
    client = {"reasoning-dropping": "dropping"}.get(run.client, run.client)
    edge = "" if run.core else ", edge"
    return (
        run.id.partition("/")[0],
        f"{client}, {run.replay}",
        f"{about}{hits} of {about}{ideal}" if run.turns else "-",
        f"{outcome}{edge}",
    )


def _wrap(text: str, width: int) -> list[str]:
    return wrapped(text, width, _INDENT + "  ", _INDENT)
