"""Predictions for a live server, from the token ids that it reported, and what a turn comes to.

Nothing here talks to the server but for the text of tokens. What is not known is bounded: a
completion whose ids the server keeps to itself still has a length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templatefix.findings.finding import Divergence, Side
from templatefix.findings.verification import Bounds, Evidence
from templatefix.prefix import common_prefix
from templatefix.replay.accounting import hit_tokens

#: Characters of common text before a divergence, tokens after it.
_BEFORE, _AFTER = 40, 24
_IDS = 8

Texts = Callable[[Sequence[int]], str | None]


@dataclass(frozen=True)
class Held:
    """A stream that the server holds, as far as it is known: its first ids, and its length."""

    ids: list[int]
    prompt: int
    length: int

    @property
    def whole(self) -> bool:
        return len(self.ids) == self.length


@dataclass(frozen=True)
class Prompt:
    """A prompt that comes after it; ``ids`` is None where only the length is known."""

    ids: list[int] | None
    length: int


def reuse_of(held: Held, prompt: Prompt) -> Bounds:
    """The common prefix of a stream and a prompt."""
    most = min(held.length, prompt.length)
    if prompt.ids is None:
        return Bounds(0, most)
    common = common_prefix(held.ids, prompt.ids)
    if common < len(held.ids):
        return Bounds(common, common)
    return Bounds(common, most)


def predicted(helds: Sequence[Held], prompt: Prompt, block_size: int) -> Bounds:
    """The hit: whatever stream of the conversation reaches furthest, in full blocks."""
    low = high = 0
    for held in helds:
        reuse = reuse_of(held, prompt)
        low = max(low, hit_tokens(reuse.low, held.length, prompt.length, block_size))
        high = max(high, hit_tokens(reuse.high, held.length, prompt.length, block_size))
    return Bounds(low, high)


def predicted_of_prompts(helds: Sequence[Held], prompt: Prompt, block_size: int) -> Bounds:
    """The hit in a store that keeps the blocks of prompts, and none that an answer filled."""
    low = high = 0
    for held in helds:
        reuse = reuse_of(held, prompt)
        # A prompt's last token has KV: it was computed to sample the first of the answer.
        low = max(low, hit_tokens(reuse.low, held.prompt + 1, prompt.length, block_size))
        high = max(high, hit_tokens(reuse.high, held.prompt + 1, prompt.length, block_size))
    return Bounds(low, high)


def verdict(
    held: Held,
    prompt: Prompt,
    answer: Mapping[str, Any],
    texts: Texts,
    reached: bool | None,
) -> tuple[bool | None, Evidence | None]:
    """Whether a prompt continues the stream before it, and what says so.

    ``answer`` is what the stream's completion was parsed into, as the client replayed it;
    ``reached`` is whether the server found as many blocks as there could be.
    """
    reuse, needed = reuse_of(held, prompt), held.length - 1
    if reuse.low >= needed:
        return True, "ids"
    if reuse.high < needed:
        return False, "ids" if reuse.exact else "lengths"
    if prompt.ids is not None and reuse.low == held.prompt and not held.whole:
        continued = texts(prompt.ids[held.prompt :])
        if continued is not None and not all(part in continued for part in _parts(answer)):
            # What was written first stands nowhere in what follows the prompt now.
            return False, "text"
    return (None, None) if reached is None else (reached, "blocks")


def lost_to_the_parser(held: Held, prompt: Prompt, answer: Mapping[str, Any], texts: Texts) -> bool:
    """Whether a prompt only leaves the stream because whitespace before a call stands in it twice.

    Some parsers leave that whitespace in the content, some only do when they stream; a template
    that prints whitespace of its own between content and a call then prints both.
    """
    content = answer.get("content")
    left = isinstance(content, str) and content != content.rstrip()
    if not (left and answer.get("tool_calls")) or prompt.ids is None or not held.whole:
        return False
    at = common_prefix(held.ids, prompt.ids)
    if not held.prompt <= at < held.length - 1:
        return False
    written, printed = texts(held.ids[at:-1]), texts(prompt.ids[at:])
    if written is None or printed is None:
        return False
    calls = written.lstrip()
    if any(part in calls for part in _parts(answer)):
        return False  # it leaves it before the calls begin
    own = len(printed) - len(printed.lstrip())
    return own > len(written) - len(calls) and printed.lstrip().startswith(calls)


def _parts(answer: Mapping[str, Any]) -> list[str]:
    """The texts of an answer without the whitespace that parsers and templates shift about."""
    texts = (answer.get("reasoning"), answer.get("reasoning_content"), answer.get("content"))
    return [text.strip() for text in texts if isinstance(text, str) and text.strip()]


def divergence_of(held: Held, prompt: Prompt, texts: Texts) -> Divergence | None:
    """Where the prompt leaves the stream; None where that is not known, or it does not."""
    reuse = reuse_of(held, prompt)
    if prompt.ids is None or not reuse.exact or reuse.low >= held.length - 1:
        return None
    at = reuse.low
    before = texts(prompt.ids[:at])
    sides = []
    for ids in (held.ids, prompt.ids):
        shown = ids[at : at + _AFTER]
        text = texts(shown)
        # Without texts the ids are what there is to see.
        spelt = " ".join(f"[{token}]" for token in shown[:_IDS]) if text is None else text
        sides.append(Side((before or "")[-_BEFORE:], spelt, tuple(shown[:_IDS])))
    return Divergence(at, len(before or ""), sides[0], sides[1])
