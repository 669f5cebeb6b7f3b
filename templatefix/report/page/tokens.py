"""Tokens as a page shows them: whitespace visible, long ones cut, no more than a page holds."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.findings.finding import Streams, Token
from templatefix.report.visible import head, visible

#: Cells of one token.
_LONGEST = 60


@dataclass(frozen=True)
class Chip:
    """One token; ``special`` ones are drawn as chips."""

    text: str
    id: int
    special: bool


@dataclass(frozen=True)
class Alignment:
    """``kind`` of a pair: ``moved`` where both sides have it, else ``gone`` or ``came``."""

    skipped: int
    common: tuple[Chip, ...]
    pairs: tuple[tuple[str, Chip | None, Chip | None], ...]
    new: tuple[Chip, ...]
    left_of_stream: int
    left_of_prompt: int
    says: str


def alignment(streams: Streams, most: int) -> Alignment:
    """Both sides, of no more than ``most`` pairs."""
    shown, hidden = streams.pairs[:most], streams.pairs[most:]
    left_of_stream = streams.left_out[0] + sum(one is not None for one, _ in hidden)
    left_of_prompt = streams.left_out[1] + sum(other is not None for _, other in hidden)
    new = streams.new if not hidden else ()
    left_of_prompt += len(streams.new) - len(new)
    return Alignment(
        streams.skipped,
        tuple(map(_chip, streams.common)),
        tuple((_kind(one, other), _maybe(one), _maybe(other)) for one, other in shown),
        tuple(map(_chip, new)),
        left_of_stream,
        left_of_prompt,
        _says(streams),
    )


def _kind(one: Token | None, other: Token | None) -> str:
    if one is not None and other is not None:
        return "moved"
    return "gone" if one is not None else "came"


def _maybe(token: Token | None) -> Chip | None:
    return None if token is None else _chip(token)


def _chip(token: Token) -> Chip:
    text = head(visible(token.text), _LONGEST).replace(" ", "·")
    return Chip(text or "⋯", token.id, token.special)


def _says(streams: Streams) -> str:
    """The alignment in a sentence, for those who do not see it."""
    gone = "".join(one.text for one, other in streams.pairs if one and other is None)
    came = "".join(other.text for one, other in streams.pairs if other and one is None)
    words = f"Both begin with the same {streams.skipped + len(streams.common)} tokens."
    if gone:
        words += f" Then the stream has, and the prompt lacks: {head(visible(gone), 120)}"
    if came:
        words += f" The prompt has, and the stream lacks: {head(visible(came), 120)}"
    return words
