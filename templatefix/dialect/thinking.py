"""Whether a mode thinks, read off its generation prompt and the tags of the format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

#: ``opened``: the generation prompt leaves a thinking block open. ``closed``: it closes one.
#: ``free``: the model may open one itself. ``none``: the format has no reasoning.
State = Literal["opened", "closed", "free", "none"]

_TAG = re.compile(r"<(?P<angle>[A-Za-z][\w:-]*)>|\[(?P<square>[A-Z][A-Z_]*)\]|◁(?P<tri>\w+)▷")


@dataclass(frozen=True)
class Tags:
    """The texts that open and close reasoning, without the whitespace around them."""

    open: str
    close: str


def closing_tag(tag: str) -> str:
    """The closing form of a tag: ``</think>`` for ``<think>``, ``[/THINK]`` for ``[THINK]``."""
    return tag[0] + "/" + tag[1:]


def tags_in(tail: str, literals: Iterable[str]) -> Tags | None:
    """The last tag in a generation prompt whose closing form the template (or the tail) knows."""
    known = "\x00".join(literals) + "\x00" + tail
    for match in reversed(list(_TAG.finditer(tail))):
        if closing_tag(match[0]) in known:
            return Tags(match[0], closing_tag(match[0]))
    for match in reversed(list(re.finditer(r"</[A-Za-z][\w:-]*>|\[/[A-Z_]+\]", tail))):
        return Tags(match[0].replace("/", "", 1), match[0])
    return None


def tags_around(before: str, after: str, tail: str) -> Tags | None:
    """The tags that a layout prints around reasoning; the opener may stand in the prompt."""
    close = after.strip()
    opener = before.strip()
    if not opener:
        found = list(_TAG.finditer(tail))
        twin = close.replace("/", "", 1)  # whatever brackets it is written with
        opener = twin if twin != close and twin in tail else found[-1][0] if found else ""
    if not close or not opener:
        return None
    return Tags(opener, close)


def state_of(tail: str, tags: Tags | None) -> State:
    """What the tail of a prompt says of the answer to come."""
    if tags is None:
        return "none"
    close = _core(tags.close)
    opened, closed = tail.rfind(tags.open), tail.rfind(close)
    if closed >= 0 and closed > opened:
        return "closed"
    return "opened" if opened >= 0 else "free"


def _core(close: str) -> str:
    """The first tag-like piece of a closer, which may go on with the header of the answer."""
    match = re.match(r"<[^<>]+>|\[[^\[\]]+\]", close)
    return match[0] if match else close


def empty_block(text: str, tags: Tags | None) -> list[tuple[int, int]]:
    """The spans of blocks that hold nothing but whitespace."""
    if tags is None or tags.open not in text:
        return []
    pattern = re.escape(tags.open) + r"\s*" + re.escape(_core(tags.close))
    return [match.span() for match in re.finditer(pattern, text)]
