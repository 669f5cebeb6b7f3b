"""What driving a live server showed, for people: at most 80 columns, to be pasted anywhere.

The table is both plain text and Markdown, and what is indented by four is a code block there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from templatefix.findings.verification import LiveRun, LiveTurn, Verification
from templatefix.report.excerpt import divergence_lines
from templatefix.report.visible import wrapped

WIDTH = 80
#: A run shows so many divergences; the JSON report has all of them.
_MOST_DIVERGENCES = 3
_COLUMNS = "turn prompt stream reused ideal predicted cached local external".split()
_BLOCK_SIZE_FROM = {
    "option": "",
    "server": ", as its metrics say",
    "default": ", vLLM's default",
}
_LEGEND = (
    "In tokens. stream: prompt and completion. reused: common prefix of the stream before and this "
    "prompt. ideal: what would be cached if all of that stream were reused. predicted: full blocks "
    "of what is reused. cached: what the server found, locally or in an external store."
)


def verify_text(verification: Verification, *, quiet: bool = False) -> str:
    """Lines of printable text, each with its end. ``quiet`` leaves the tables and the last line."""
    lines = [] if quiet else _wrapped(_head(verification))
    for run in verification.runs:
        if not run.turns:
            continue
        lines += ["", f"{run.rendered} template, {run.client} client", "", *_table(run.turns)]
        if not quiet:
            lines += _divergences(run)
            lines += ["", *_wrapped(_verdict(run)), *_lines(run.notes)]
    if not quiet:
        lines += _comparisons(verification)
        lines += ["", *(_wrapped(_LEGEND) if any(run.turns for run in verification.runs) else ())]
        lines += _lines(f"not seen: {sentence}" for sentence in verification.unseen)
        lines += _wrapped(f"requests: {_requests(verification)}")
    lines += ["", *_wrapped(_agreement(verification))]
    return "".join(f"{line}\n" for line in lines).lstrip("\n")


def _head(verification: Verification) -> str:
    traits = [
        f"blocks of {verification.block_size} tokens"
        + _BLOCK_SIZE_FROM[verification.block_size_from],
        "streaming" if verification.streaming else "not streaming",
        "with tools" if verification.tools else "without tools",
    ]
    if verification.reset:
        held = "prompts and answers" if verification.write_back else "prompts only"
        traits.append(f"local cache reset before each turn, a store of {held} expected")
    return f"{verification.url}, model {verification.model}: {', '.join(traits)}"


def _table(turns: Sequence[LiveTurn]) -> list[str]:
    rows = [_cells(turn) for turn in turns]
    widths = [max(map(len, cells)) for cells in zip(_COLUMNS, *rows, strict=True)]
    between = " | " if sum(widths) + 3 * len(widths) - 3 <= WIDTH else "|"
    rule = between.join(f"{'-' * (width - 1)}:" for width in widths)
    return [_row(_COLUMNS, widths, between), rule, *(_row(row, widths, between) for row in rows)]


def _cells(turn: LiveTurn) -> list[str]:
    figures = (
        turn.turn,
        turn.prompt,
        turn.stream,
        turn.reuse,
        turn.ideal,
        turn.predicted,
        turn.cached,
        turn.local,
        turn.external,
    )
    return ["-" if figure is None else str(figure) for figure in figures]


def _row(cells: Sequence[str], widths: Sequence[int], between: str) -> str:
    return between.join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _divergences(run: LiveRun) -> list[str]:
    lines: list[str] = []
    held = dict(zip((turn.turn for turn in run.turns[1:]), run.turns, strict=False))
    leaving = [turn for turn in run.turns if turn.divergence is not None]
    for turn in leaving[:_MOST_DIVERGENCES]:
        assert turn.divergence is not None
        at, before = turn.divergence.token_index, held[turn.turn]
        lines += [
            "",
            *_wrapped(
                f"turn {turn.turn}: the prompt leaves the stream of turn {before.turn} at token "
                f"{at} of {before.stream}{_WHOSE[turn.lost_to]}"
            ),
            "",
            *(f"    {line.text}" for line in divergence_lines(turn.divergence, WIDTH - 4)),
        ]
    if len(leaving) > _MOST_DIVERGENCES:
        lines += ["", f"(and {len(leaving) - _MOST_DIVERGENCES} more turns like these)"]
    return lines


_WHOSE = {
    None: "",
    "client": ", since the client dropped its reasoning",
    "length": ", which was cut by its length",
    "parser": ", since the server's parser left the whitespace before the call in the content and "
    "the template prints its own after it",
}
_EXCUSES = {
    "client": "the client dropped the reasoning of each answer",
    "length": "each answer was cut by --max-tokens",
    "parser": "the server's parser left the whitespace before each call in the content",
}


def _verdict(run: LiveRun) -> str:
    counted = [turn for turn in run.turns[1:] if turn.lost_to is None]
    if not counted:
        excused = {turn.lost_to for turn in run.turns[1:]}
        said = " or ".join(why for owner, why in _EXCUSES.items() if owner in excused)
        return f"no verdict: {said}" if said else "no verdict: there is no second turn"
    leaving = [turn for turn in counted if turn.preserving is False]
    if leaving:
        losses = [turn.lost for turn in leaving if turn.lost is not None]
        lost = f"; {sum(losses)} cached tokens could not be reused" if losses else ""
        return (
            f"breaks: {len(leaving)} of {len(counted)} prompts leave the stream before them"
            f"{_as_seen(leaving)}{lost}{_computed(run)}"
        )
    if any(turn.preserving is None for turn in counted):
        return f"no verdict: the server does not show enough{_computed(run)}"
    return (
        f"preserving: {len(counted)} of {len(counted)} prompts continue the stream before them"
        f"{_as_seen(counted)}{_computed(run)}"
    )


def _as_seen(turns: Sequence[LiveTurn]) -> str:
    evidence = {turn.evidence for turn in turns}
    if "blocks" in evidence:
        return " (as far as the blocks show that the server found)"
    return " (as the text shows)" if "text" in evidence else ""


def _computed(run: LiveRun) -> str:
    if run.computed is None:
        return ""
    return f"; {run.computed} of {sum(turn.prompt for turn in run.turns)} prompt tokens computed"


def _comparisons(verification: Verification) -> list[str]:
    """The candidate beside the served template, client by client."""
    served = {run.client: run for run in verification.runs if run.rendered == "served"}
    lines: list[str] = []
    for run in verification.runs:
        other = served.get(run.client)
        if run.rendered == "served" or other is None or run.fault or other.fault:
            continue
        if run.computed is None or other.computed is None:
            continue
        lines += _wrapped(
            f"{run.client} client: the candidate leaves {run.computed} prompt tokens to compute, "
            f"the served template {other.computed}"
        )
    return ["", *lines] if lines else []


def _requests(verification: Verification) -> str:
    counted = verification.requests.items()
    return ", ".join(f"{number} {what}" for what, number in counted) or "none"


def _agreement(verification: Verification) -> str:
    if verification.fault is not None:
        return f"ended early: {verification.fault}"
    compared = [turn for run in verification.runs for turn in run.compared]
    if not compared:
        return "not compared: no figure of the server can be held against a prediction"
    wrong = [(run, turn) for run in verification.runs for turn in run.compared if not turn.agrees]
    if wrong:
        run, turn = wrong[0]
        return (
            f"differ in {len(wrong)} of {len(compared)} turns, first in "
            f"{_label(run, verification)}turn {turn.turn}: {turn.predicted} predicted, "
            f"{turn.cached} cached"
        )
    ranges = sum(turn.predicted is not None and not turn.predicted.exact for turn in compared)
    within = f" ({ranges} of them within a range)" if ranges else ""
    number = len(compared)
    return f"agree: the server found what was predicted in {number} of {number} turns{within}"


def _label(run: LiveRun, verification: Verification) -> str:
    if len(verification.runs) == 1:
        return ""
    return f"{run.rendered} template, {run.client} client, "


def _lines(sentences: Iterable[str]) -> list[str]:
    return [line for sentence in sentences for line in _wrapped(sentence)]


def _wrapped(sentence: str) -> list[str]:
    return wrapped(sentence, WIDTH) or [""]
