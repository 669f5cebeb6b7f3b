"""The two token streams of a divergence, laid side by side for reports that show every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from templatefix.findings.finding import Streams, Token
from templatefix.replay.accounting import history_tokens
from templatefix.replay.run import Comparison
from templatefix.tokens import Encoder

#: Tokens kept of what is common, of both sides up to the end of the history, and of what is new.
_BEFORE, _AFTER, _NEW = 40, 160, 16


def streams_of(comparison: Comparison, encoder: Encoder) -> Streams:
    """The two sides around the place where they part, in tokens."""
    stream, prompt = comparison.before.stream_ids, comparison.after.prompt_ids
    reuse = comparison.reuse
    history = history_tokens(stream, prompt, reuse)
    added = encoder.special_tokens()

    def token(token_id: int) -> Token:
        text = encoder.token_text(token_id)
        return Token(token_id, text, text in added)

    start = max(0, reuse - _BEFORE)
    ours, theirs = stream[reuse : reuse + _AFTER], prompt[reuse : min(history, reuse + _AFTER)]
    shown = reuse + len(theirs)
    # What is new is shown where what it follows is.
    new = prompt[history : history + _NEW] if shown == history else []
    return Streams(
        start,
        tuple(map(token, stream[start:reuse])),
        tuple(
            (None if one is None else token(one), None if other is None else token(other))
            for one, other in _aligned(ours, theirs)
        ),
        tuple(map(token, new)),
        (len(stream) - reuse - len(ours), len(prompt) - shown - len(new)),
    )


def _aligned(ours: Sequence[int], theirs: Sequence[int]) -> Iterator[tuple[int | None, int | None]]:
    """Equal tokens side by side, the others alone; of two that differ the stream's comes first."""
    for name, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if name == "equal":
            yield from zip(ours[a:b], theirs[c:d], strict=True)
        else:
            yield from ((one, None) for one in ours[a:b])
            yield from ((None, other) for other in theirs[c:d])
