"""A table of what hand-made training templates still break, and repairs by ours do not.

    python tools/peer_proof.py [NAME...]

Fetches the pinned wheel of their project once. Names are those of ``tests/peers.py``.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.packages import PINS, Unavailable
from tests.peers import ORIGINALS, Pair, pair


def main() -> None:
    names = sys.argv[1:] or list(ORIGINALS)
    print(f"originals and training templates of trl {PINS['trl']}, keep-reasoning")
    for name in names:
        begun = time.monotonic()
        try:
            found = pair(name)
        except Unavailable as reason:
            sys.exit(str(reason))
        print(f"{name} ({time.monotonic() - begun:.0f} s, {_tokens(found)})")
        repaired = found.repaired
        rung = f"rung {repaired.candidate.rung}" if repaired.candidate else repaired.status
        _tell("original", found, found.bench.subject.template.text)
        _tell("training template", found, found.theirs)
        _tell(f"ours, {rung}", found, repaired.text)
        for attempt in repaired.attempts if repaired.text is None else ():
            print(f"    {attempt.rung}: {attempt.violation.clause}: {attempt.violation.message}")


def _tokens(found: Pair) -> str:
    encoder = found.bench.subject.encoder
    return "tokens of a stand-in" if encoder.approximate else "tokens of the model's own tokenizer"


def _tell(label: str, found: Pair, text: str | None) -> None:
    if text is None:
        return
    broken = found.broken(text)
    cases: Mapping[str, bool] = found.keeps(text)
    of = found.bench.original.comparisons
    told = ", ".join(f"{case}: {'kept' if kept else 'LOST'}" for case, kept in cases.items())
    print(f"  {label}: {broken.total()} of {of} core comparisons break; {told}", flush=True)
    for kind, count in Counter(broken).most_common(6):
        print(f"      {count} {kind}")


if __name__ == "__main__":
    main()
