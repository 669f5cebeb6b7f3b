"""What ``patch`` says about a repair, for people; it goes to stderr, beside the template."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templatefix.findings.repair import Broken, Refusal, Remaining, RepairReport, Trade
from templatefix.report.json_report import to_json
from templatefix.report.kwargs import kwargs_text
from templatefix.report.visible import visible

#: What each rung of the ladder changes.
RUNGS = {
    1: "the default of a kwarg",
    2: "conditions widened",
    3: "outputs edited",
    4: "the branch for answers rebuilt",
    5: "the original folded into a macro",
}
_LONGEST_CONVERSATION = 20_000
_MOST_TRADES, _MOST_KINDS = 4, 5
#: What a turn may take to render in a fold.
_FOLD_MILLISECONDS = 0.4
_SHELL_FLAG = "--default-chat-template-kwargs"


@dataclass(frozen=True)
class Delivery:
    """What became of the text: ``done`` says where it is, ``serve`` is the command that uses it
    (None where there is none to give, several lines where it needs files), ``other_policy`` the
    command that repairs what is left, ``warned`` what the server would do otherwise, in lines,
    ``start`` where it would better have begun (empty: it began there)."""

    done: str
    serve: str | None
    other_policy: str
    warned: str = ""
    start: str = ""


def flags(kwargs: Mapping[str, Any]) -> str:
    """The flags of a server that set a template's defaults, quoted for a shell."""
    return f"{_SHELL_FLAG} {shlex.quote(to_json(kwargs, indent=None))}"


def patch_text(report: RepairReport, delivery: Delivery, *, quiet: bool, verbose: bool) -> str:
    """Lines of printable text, each with its end; none where there is nothing to say.

    ``quiet`` leaves what went wrong, and what still breaks.
    """
    lines: list[str] = []
    if report.status == "failed":
        lines += _failed(report)
    elif not quiet:
        lines += _success(report, delivery)
    if verbose:
        lines += _particulars(report)
    if report.excluded:
        lines.append(
            f"{report.excluded} core comparisons still lose tokens, which {report.policy} leaves "
            f"as they are: {delivery.other_policy}"
        )
    return "".join(f"{visible(line)}\n" for line in lines)


def _name(report: RepairReport) -> str:
    return report.display + (f"[{report.template_name}]" if report.template_name else "")


def _success(report: RepairReport, delivery: Delivery) -> list[str]:
    if report.status == "unchanged":
        lines = [f"{_name(report)}: unchanged: under {report.policy} there is nothing to repair"]
        lines += _fixes(report)
    elif report.rung is None:
        lines = [f"{_name(report)}: fixed; under {report.policy} there is nothing else to repair"]
        lines += _changes(report)
    else:
        rung = f"rung {report.rung}: {RUNGS.get(report.rung, 'edited')}"
        lines = [
            f"{_name(report)}: repaired under {report.policy} ({rung})",
            *_changes(report),
            f"  {report.broken} core comparisons lost tokens before, none of them does now",
            f"  proof: {_proof(report)}",
            *_trades(report),
            *_cost(report),
        ]
    if report.tokenizer_approximate:
        lines.append("  tokens are counted by a stand-in: --tokenizer names the model's own")
    lines += _remaining(report)
    lines += [f"  {delivery.start}"] if delivery.start else []
    lines.append(f"  {delivery.done}")
    if delivery.serve is not None:
        first, *more = delivery.serve.splitlines()
        # A script is copied as it stands: it is not indented.
        lines += ["  serve it:", first, *more] if more else [f"  serve it: {first}"]
    return [*lines, *delivery.warned.splitlines()]


def _changes(report: RepairReport) -> list[str]:
    return [*(f"  {change}" for change in report.changes), *_fixes(report)]


def _fixes(report: RepairReport) -> list[str]:
    """What came of the codes that were to be fixed; what was changed is told by the changes."""
    words = {
        "fixed": "{0.code} is fixed: of {0.tried} inputs, only those change that it is about",
        "not-shown": "{0.code}: nothing to fix, no conversation that was tried shows it",
        "not-found": "{0.code}: no change was found that keeps everything else: {0.left}",
    }
    return [f"  {words[each.status].format(each)}" for each in report.fixes]


def _proof(report: RepairReport) -> str:
    clauses = ", ".join(f"{each.clause} {each.tried}" for each in report.clauses)
    generated = f"{report.examples} generated conversations (seed {report.seed})"
    return f"the contract holds on every input tried: {clauses}; among them {generated}"


def _trades(report: RepairReport) -> list[str]:
    telling = [each for each in report.trades if each.extra_context or each.saved_prefill]
    shown = sorted(telling, key=lambda each: -each.saved_prefill)[:_MOST_TRADES]
    lines = [f"  {_trade(each, report)}" for each in shown]
    if len(telling) > len(shown):
        lines.append(f"  ({len(telling) - len(shown)} more modes: see --report)")
    return lines


def _trade(trade: Trade, report: RepairReport) -> str:
    about = "~" if report.tokenizer_approximate else ""
    extra, saved = trade.extra_context / trade.requests, trade.saved_prefill / trade.requests
    mode = kwargs_text(trade.kwargs) or "default mode"
    return (
        f"{mode}: {about}{extra:+.1f} context tokens and {about}{-saved:+.1f} prefilled tokens a "
        f"request (mean of {trade.requests}, blocks of {report.block_size})"
    )


def _cost(report: RepairReport) -> list[str]:
    """What a fold costs to render, and whether that is more than it should."""
    cost = report.render_cost
    if cost is None:
        return []
    above = "" if cost.milliseconds <= _FOLD_MILLISECONDS else f", above {_FOLD_MILLISECONDS} ms"
    return [
        f"  rendering at {cost.turns} turns: {cost.steps} steps a turn (the original's: "
        f"{cost.steps_before}); measured here, {cost.milliseconds:.2f} ms a turn{above}, "
        f"{cost.ratio:.1f}x the original's time"
    ]


def _remaining(report: RepairReport) -> list[str]:
    """What ``check`` shows of the file, and why a change of the mode still costs something."""
    alike: dict[tuple[object, ...], list[Remaining]] = {}
    for each in report.remaining:
        key = (each.code, each.severity, each.edge, each.message)
        alike.setdefault(key, []).append(each)
    lines = [f"  check still shows {_findings(each)}" for each in alike.values()]
    return [*lines, *dict.fromkeys(f"  {each.note}" for each in report.remaining if each.note)]


def _findings(alike: Sequence[Remaining]) -> str:
    """Findings of one kind, at one or several places, in a line."""
    first = alike[0]
    severity = f"{first.severity}, edge" if first.edge else first.severity
    more = sum(each.runs for each in alike) - 1
    others = f" and {_count(more, 'more run')}" if more > 0 else ""
    where = f" ({first.run_id}{others})" if first.run_id else ""
    return f"{first.code} ({severity}): {first.message}{where}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _failed(report: RepairReport) -> list[str]:
    unfixed = [each.code for each in report.fixes if each.status == "not-found"]
    if unfixed:
        head = f"{_name(report)}: not fixed: {', '.join(unfixed)}; nothing was written"
        return [head, *_fixes(report)]
    lines = [
        f"{_name(report)}: not repaired under {report.policy}: {report.broken} core comparisons "
        "lose tokens, and nothing was written"
    ]
    failing = report.failing
    if not report.refusals:
        lines.append(f"  no rung has a candidate for: {_kinds(report)}")
    if failing is not None:
        lines += _refused(failing, "last attempt: " if failing.rung else "the original ")
    return lines


def _refused(refusal: Refusal, label: str = "") -> list[str]:
    rung = f"rung {refusal.rung} " if refusal.rung else ""
    lines = [f"  {label}{rung}breaks {refusal.clause}: {refusal.message}"]
    if refusal.conversation is not None:
        document = to_json(refusal.conversation, indent=None)
        if len(document) > _LONGEST_CONVERSATION:
            return [*lines, "  conversation: too long to show; --report has it"]
        lines += [
            "  conversation that shows it, on the next line (for check --conversation FILE):",
            document,
        ]
    return lines


def _kinds(report: RepairReport) -> str:
    """The codes that are left, each with how often and one place."""
    first: dict[str, Broken] = {}
    for each in report.unrepaired:
        first.setdefault(each.code, each)
    counts = Counter(each.code for each in report.unrepaired)
    kinds = [
        f"{code} ({counts[code]}x, as in {each.run_id}, request {each.turn})"
        for code, each in first.items()
    ]
    return ", ".join(kinds[:_MOST_KINDS]) or "what breaks"


def _particulars(report: RepairReport) -> list[str]:
    """For ``--verbose``: the attempts, the notes of the clauses and the hashes."""
    lines: list[str] = []
    earlier = report.refusals[:-1] if report.status == "failed" else report.refusals
    told = [_refused(refusal, "refused: ")[0] for refusal in earlier]
    lines += dict.fromkeys(told)  # the same refusal twice says nothing new; --report has all
    lines += [f"  rung {each.rung} has no candidate: {each.why}" for each in report.passed_over]
    for clause in report.clauses:
        lines += [f"  {clause.clause}: {note}" for note in clause.notes]
    lines.append(f"  original sha256 {report.original_sha256}")
    if report.patched_sha256 is not None:
        lines.append(f"  patched sha256 {report.patched_sha256}")
    return lines
