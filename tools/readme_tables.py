"""Write the tables of README.md that the program prints: ``python tools/readme_tables.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The command that prints a table -> the comment that ends it.
TABLES = {
    "rules --output-format markdown": "<!-- end of rules -->",
    "ready list --output-format markdown": "<!-- end of ready -->",
}


def main() -> None:
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    for command, end in TABLES.items():
        words = [sys.executable, "-m", "templatefix", *command.split()]
        table = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        before, begin, rest = text.partition(f"{command}` -->\n")
        text = before + begin + table + end + rest.partition(end)[2]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
