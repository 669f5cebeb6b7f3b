"""Fuzz what reads and repairs templates, for longer than the tests do.

    python tools/fuzz.py [--times 50] [-k WORDS]
    python tools/fuzz.py --atheris reading --seconds 600

The first runs the tests of ``tests/fuzz`` with that many times their inputs, others at each run.
The second lets atheris, where it is installed (``pip install atheris``), look for inputs that reach
new code: ``reading``, ``suppressing``, ``checking``, ``conversing`` or ``recording``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("--times", type=int, default=50, metavar="N")
    parser.add_argument("-k", default="", metavar="WORDS", help="the tests to run, as for pytest")
    parser.add_argument("--atheris", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=600)
    asked = parser.parse_args()
    if asked.atheris is not None:
        return _atheris(asked.atheris, asked.seconds)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/fuzz",
        "-n",
        "0",
        "--hypothesis-show-statistics",
    ]
    command += ["-k", asked.k] if asked.k else []
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "TEMPLATEFIX_FUZZ": str(asked.times)}, check=False
    ).returncode


_Raw = argparse.RawDescriptionHelpFormatter


def _atheris(name: str, seconds: int) -> int:
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT))
    with atheris.instrument_imports(include=["templatefix", "jinja2"]):
        from tests.fuzz import mutants, targets
        from tests.subjects import APPENDS_ALL, template

    def recorded(text: str) -> object:
        content = text.encode("utf-8", "surrogatepass")
        return targets.recording(content, template(APPENDS_ALL, exact=False))

    known: dict[str, Callable[[str], object]] = {
        "reading": targets.reading,
        "suppressing": targets.suppressing,
        "checking": targets.checking,
        "conversing": targets.conversing,
        "recording": recorded,
    }
    if name not in known:
        print(f"no such target: {name}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    corpus = ROOT / ".fuzz" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(mutants.templates()):
        (corpus / f"seed-{number}").write_text(text, "utf-8", "surrogatepass")

    def one(data: bytes) -> None:
        known[name](data.decode("utf-8", "replace"))

    atheris.Setup([sys.argv[0], str(corpus), f"-max_total_time={seconds}"], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
