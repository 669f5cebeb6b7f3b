"""Recorded traffic for people: how much was reused, and to whom the rest was lost."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.findings.outcome import Report
from templatefix.findings.recorded import OWNERS, RecordedTraffic, TrafficLoss
from templatefix.report.visible import head, visible, wrapped

#: The block is never wider, in cells, whatever the terminal allows.
_WIDEST = 80
_INDENT = "   "
#: How many skipped lines and reasons are shown without --verbose, and the longest of them.
_SHOWN, _LONGEST = 3, 60


def recorded_lines(
    traffic: RecordedTraffic, report: Report, width: int, *, verbose: bool
) -> list[str]:
    """The block about a recording."""
    width = min(width, _WIDEST)
    about = "~" if report.tokenizer_approximate else ""
    lines = _wrapped(f"recorded traffic in {traffic.file}", width)
    for text in (*_left_out(traffic, verbose), *_streams(traffic)):
        lines += _wrapped(text, width)
    lines += [head(line, width) for line in _figures(traffic, about)]
    lines += [head(line, width) for line in _table(traffic.losses, about)]
    for text in (*_shared(traffic, about), *_recovery(traffic, about)):
        lines += _wrapped(text, width)
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return wrapped(text, width, _INDENT + "  ", _INDENT)


def _left_out(traffic: RecordedTraffic, verbose: bool) -> Iterator[str]:
    """What of the recording does not count, and why."""
    if traffic.skipped_lines:
        shown = traffic.skipped if verbose else traffic.skipped[:_SHOWN]
        named = [f"line {each.line}: {head(visible(each.why), _LONGEST)}" for each in shown]
        more = traffic.skipped_lines - len(named)
        named += [f"{more} more"] if more else []
        yield f"skipped {_counted(traffic.skipped_lines, 'line')} ({'; '.join(named)})"
    if traffic.set_aside:
        shown_reasons = traffic.set_aside if verbose else traffic.set_aside[:_SHOWN]
        reasons = [
            f"{each.requests} from line {each.example} on: {head(visible(each.why), _LONGEST)}"
            for each in shown_reasons
        ]
        more = len(traffic.set_aside) - len(reasons)
        reasons += [_counted(more, "other reason")] if more else []
        total = sum(each.requests for each in traffic.set_aside)
        yield f"not replayed: {_counted(total, 'request')} ({'; '.join(reasons)})"
    if traffic.closed:
        yield (
            f"{_counted(traffic.closed, 'conversation')} closed early to bound the memory: a "
            "later request of one counts as a new conversation"
        )
    if traffic.other_prompts:
        yield (
            f"{_counted(traffic.other_prompts, 'request')} recorded with prompt ids that this "
            "template does not print: another template or tokenizer served them"
        )


def _figures(traffic: RecordedTraffic, about: str) -> Iterator[str]:
    branches = ""
    if traffic.branches:
        branches = f", {_counted(traffic.branches, 'branch', 'branches')}"
    conversations = _counted(traffic.conversations, "conversation")
    rows = [
        ("requests", f"{traffic.requests}", f"in {conversations}{branches}"),
        ("continue another", f"{traffic.continued}", ""),
        ("prompt tokens", f"{about}{traffic.prompt_tokens}", ""),
        ("could be reused", f"{about}{traffic.ideal_tokens}", ""),
        ("are reused", f"{about}{traffic.reused_tokens}", ""),
        ("are lost", f"{about}{traffic.lost_tokens}", ""),
    ]
    rows += [
        (f"  to the {owner}", f"{about}{tokens}", "")
        for owner in OWNERS
        if (tokens := traffic.lost_to(owner))
    ]
    name = max(len(row[0]) for row in rows)
    wide = max(len(row[1]) for row in rows)
    for words, number, note in rows:
        yield f"{_INDENT}{words:<{name}}  {number:>{wide}}  {note}".rstrip()


def _streams(traffic: RecordedTraffic) -> Iterator[str]:
    """How the streams that were compared are known."""
    known = traffic.completions
    parts = [
        f"{number} {words}"
        for number, words in (
            (known.get("ids", 0), "from token ids"),
            (known.get("text", 0), "from text"),
            (known.get("unknown", 0), "unknown beyond the prompt"),
        )
        if number
    ]
    if parts:
        cut = f"; {_counted(traffic.cut, 'answer')} cut short" if traffic.cut else ""
        yield f"answers known {', '.join(parts)}{cut}"


def _table(losses: tuple[TrafficLoss, ...], about: str) -> Iterator[str]:
    if not losses:
        return
    rows = [(loss.owner, _named(loss), f"{about}{loss.lost_tokens}", loss) for loss in losses]
    name = max(len("lost to"), *(len(row[1]) for row in rows))
    tokens = max(len("tokens"), *(len(row[2]) for row in rows))
    yield (f"{_INDENT}{'lost to':<{name + 11}}  {'tokens':>{tokens}}  requests  first seen")
    for owner, what, lost, loss in rows:
        yield (
            f"{_INDENT}{owner:<9}  {what:<{name}}  {lost:>{tokens}}  {loss.requests:>8}  "
            f"line {loss.example}"
        )


def _shared(traffic: RecordedTraffic, about: str) -> Iterator[str]:
    shared = sum(loss.shared_tokens for loss in traffic.losses)
    if shared:
        yield (
            f"{about}{shared} of the client's tokens the template would lose as well: the client "
            "has to send reasoning back, and the template to print it"
        )


def _named(loss: TrafficLoss) -> str:
    return loss.what if loss.line is None else f"{loss.what} at {loss.line}:{loss.column}"


def _recovery(traffic: RecordedTraffic, about: str) -> Iterator[str]:
    recovery = traffic.recovery
    lost = traffic.lost_to("template")
    if recovery is None:
        return
    command = f"templatefix patch --policy {recovery.policy}"
    if recovery.status == "failed":
        yield f"{command} finds no repair: nothing of the {about}{lost} tokens comes back"
    elif recovery.status == "unchanged":
        yield f"{command} leaves this template as it is: nothing of the {about}{lost} comes back"
    else:
        saved = recovery.saved_prefill_tokens
        fewer = f"{about}{abs(saved)} {'fewer' if saved >= 0 else 'more'}"
        yield (
            f"{command} would recover {about}{recovery.recovered_tokens} of the {about}{lost} "
            f"tokens lost to the template; {fewer} prompt tokens to compute"
        )


def _counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
