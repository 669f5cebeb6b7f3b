"""Write the tables of README and docs/ that the program prints: ``python tools/doc_tables.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_READY = ("ready list --output-format markdown", "<!-- end of ready -->")
#: The page -> the command that prints its table, and the comment that ends it.
TABLES = {
    "README.md": _READY,
    "docs/ready.md": _READY,
    "docs/rules.md": ("rules --output-format markdown", "<!-- end of rules -->"),
}


def main() -> None:
    for name, (command, end) in TABLES.items():
        page = ROOT / name
        words = [sys.executable, "-m", "templatefix", *command.split()]
        table = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        before, begin, rest = page.read_text(encoding="utf-8").partition(f"{command}` -->\n")
        text = before + begin + table + end + rest.partition(end)[2]
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
