"""Patch every template of a directory and count how: ``python tools/patch_corpus.py DIR``.

Prints a line for each template that loses tokens, then how many each rung repaired and why the
rest was not. The directory is searched as ``templatefix check`` searches it; with the layout of
``tests/corpus.py`` each template is judged with its own model's tokenizer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from templatefix.errors import TargetError
from templatefix.patch.repair import PatchOptions, repair
from templatefix.render import SyntaxFault
from templatefix.source import SourceOptions, load
from templatefix.syntax import Unparsable
from tests.corpus import corpus_entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--policy", default="keep-reasoning")
    parser.add_argument("--max-examples", type=int, default=60)
    asked = parser.parse_args()
    options = PatchOptions(policy=asked.policy, max_examples=asked.max_examples)
    tokenizers = {
        entry.template.resolve(): str(entry.tokenizer)
        for entry in corpus_entries()
        if entry.tokenizer is not None
    }
    counts: Counter[str] = Counter()
    for template in load(str(asked.directory), SourceOptions()):
        begun = time.monotonic()
        path = template.path.resolve() if template.path else None
        tokenizer = tokenizers.get(path) if path else None
        try:
            if tokenizer is not None:
                (template,) = load(str(path), SourceOptions(tokenizer=tokenizer))
            patched = repair(template, options)
        except (TargetError, Unparsable, SyntaxFault) as fault:
            counts["unreadable"] += 1
            print(f"{template.display}: {fault}")
            continue
        outcome = f"rung {patched.candidate.rung}" if patched.candidate else patched.status
        counts[outcome] += 1
        if patched.broken:
            seconds = time.monotonic() - begun
            print(f"{template.display}: {outcome}, {patched.broken} broken, {seconds:.1f} s")
            last = patched.attempts[-1].violation if patched.attempts else None
            if patched.status == "failed" and last is not None:
                print(f"    {last.clause}: {last.message[:200]}")
    print(", ".join(f"{outcome}: {count}" for outcome, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
