"""The text machine under vLLM's engine-based parsers: tags that move between states.

A grammar says what each tag does in each state; a tag without a move in a state is plain text
there. The longest tag that matches wins. Seen in vLLM 0.32.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class State(Enum):
    CONTENT = auto()
    INSIDE = auto()  # reasoning that opens again after the reasoning pass: it is lost
    PREAMBLE = auto()  # inside the wrapper, before a call
    NAME = auto()
    ARGUMENTS = auto()
    BETWEEN = auto()  # after a call


@dataclass(frozen=True)
class Move:
    to: State
    starts: bool = False  # a call begins
    keeps: bool = False  # the tag's text is part of the arguments


@dataclass(frozen=True)
class Grammar:
    moves: Mapping[tuple[State, str], Move]
    reasoning_tags: tuple[str, ...] = ()
    tags: tuple[str, ...] = field(init=False, repr=False)  # the longest first
    pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tags = tuple(sorted({tag for _, tag in self.moves}, key=len, reverse=True))
        object.__setattr__(self, "tags", tags)
        object.__setattr__(self, "pattern", re.compile(f"({'|'.join(map(re.escape, tags))})"))


@dataclass
class Slot:
    """One call as written: its name and the text of its arguments."""

    name: str = ""
    body: str = ""


@dataclass(frozen=True)
class Found:
    before: str  # content before the first call
    after: str  # content between and after the calls
    slots: list[Slot]


def read(grammar: Grammar, text: str, *, tags_are_text: bool = False) -> Found:
    """The calls and the content around them. ``tags_are_text``: reasoning tags do nothing."""
    state = State.CONTENT
    before: list[str] = []
    after: list[str] = []
    slots: list[Slot] = []
    for piece in grammar.pattern.split(text):
        move = grammar.moves.get((state, piece))
        if move is not None and tags_are_text and piece in grammar.reasoning_tags:
            move = None
        if move is not None:
            state = move.to
            if move.starts:
                slots.append(Slot())
            if not move.keeps:
                continue
        if state is State.CONTENT:
            (after if slots else before).append(piece)
        elif state is State.NAME:
            slots[-1].name += piece
        elif state is State.ARGUMENTS:
            slots[-1].body += piece
    return Found("".join(before), "".join(after), slots)


def content_beside(found: Found, called: bool, *, streaming: bool, strips: bool) -> str | None:
    """The content rules of the engine.

    A whole completion loses what follows the first call; a stream keeps it.
    """
    content = found.before + (found.after if streaming or not called else "")
    if found.slots and not content.strip():
        return None
    if called and strips and not streaming:
        content = content.strip()
    return content or None


def reasoning_moves(
    opening: str, closing: str, *, reopens: bool, tool_tags: Mapping[str, Move]
) -> dict[tuple[State, str], Move]:
    """What the reasoning tags still do in content: a closing tag vanishes."""
    moves = {(State.CONTENT, closing): Move(State.CONTENT)}
    if reopens:
        moves[State.CONTENT, opening] = Move(State.INSIDE)
        moves[State.INSIDE, opening] = Move(State.INSIDE)
        moves[State.INSIDE, closing] = Move(State.CONTENT)
        moves.update({(State.INSIDE, tag): move for tag, move in tool_tags.items()})
    return moves
