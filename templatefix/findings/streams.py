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
#: Stands for bytes that are no character by themselves.
_PART = "\ufffd"


def streams_of(comparison: Comparison, encoder: Encoder) -> Streams:
    """The two sides around the place where they part, in tokens."""
    stream, prompt = comparison.before.stream_ids, comparison.after.prompt_ids
    reuse = comparison.reuse
    history = history_tokens(stream, prompt, reuse)
    start = max(0, reuse - _BEFORE)
    ours, theirs = stream[reuse : reuse + _AFTER], prompt[reuse : min(history, reuse + _AFTER)]
    shown = reuse + len(theirs)
    # What is new is shown where what it follows is.
    new = prompt[history : history + _NEW] if shown == history else []
    return Streams(
        start,
        tuple(_tokens(stream[start:reuse], encoder)),
        tuple(_aligned(_tokens(ours, encoder), _tokens(theirs, encoder))),
        tuple(_tokens(new, encoder)),
        (len(stream) - reuse - len(ours), len(prompt) - shown - len(new)),
    )


def _tokens(ids: Sequence[int], encoder: Encoder) -> list[Token]:
    """The tokens; a character that several of them share is the first one's."""
    added = encoder.special_tokens()
    texts = [encoder.token_text(token_id) for token_id in ids]
    start = 0
    while start < len(texts):
        end = start
        while end < len(texts) and _PART in texts[end]:
            end += 1
        if end - start > 1 and _PART not in (whole := encoder.decode(ids[start:end])):
            texts[start:end] = [whole, *[""] * (end - start - 1)]
        start = end + 1
    return [Token(one, text, text in added) for one, text in zip(ids, texts, strict=True)]


def _aligned(
    ours: Sequence[Token], theirs: Sequence[Token]
) -> Iterator[tuple[Token | None, Token | None]]:
    """Equal tokens side by side, the others alone; of two that differ the stream's comes first."""
    matcher = SequenceMatcher(None, _ids(ours), _ids(theirs), autojunk=False)
    for name, a, b, c, d in matcher.get_opcodes():
        if name == "equal":
            yield from zip(ours[a:b], theirs[c:d], strict=True)
        else:
            yield from ((one, None) for one in ours[a:b])
            yield from ((None, other) for other in theirs[c:d])


def _ids(tokens: Sequence[Token]) -> list[int]:
    return [token.id for token in tokens]
