"""The code blocks of README and of the pages in docs/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is that of its fence, 1-based."""

    page: str
    line: int
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a console block, in one line, and what the page shows of its output."""

    page: str
    line: int
    words: str
    shown: str


def pages() -> list[Path]:
    """README and its neighbours, and everything in docs/."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    return [
        Block(name, text.count("\n", 0, found.start()) + 1, found["language"], found["text"])
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block: lines after ``$ ``, and those that a backslash joins."""
    shown: list[str] = []
    words, line, begun = "", block.line, False
    for number, text in enumerate(block.text.splitlines(), start=block.line + 1):
        if text.startswith("$ "):
            if begun:
                yield Command(block.page, line, words, "\n".join(shown))
            words, shown, line, begun = text[2:], [], number, True
        elif begun and words.endswith("\\") and not shown:
            words = words[:-1].rstrip() + " " + text.strip()
        else:
            shown.append(text)
    if begun:
        yield Command(block.page, line, words, "\n".join(shown))


def console() -> list[Command]:
    """Every command of every page."""
    return [
        command
        for page in pages()
        for block in blocks(page)
        if block.language == "console"
        for command in commands(block)
    ]
