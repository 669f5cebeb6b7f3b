"""The two token streams of a divergence, laid side by side for reports that show every token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
    added = encoder.special_tokens()
    known: dict[int, Token] = {}
    for one in {*stream[start:reuse], *ours, *theirs, *new}:
        text = encoder.token_text(one)
        known[one] = Token(one, text, text in added)
    return Streams(
        start,
        tuple(_tokens(stream[start:reuse], known, encoder)),
        tuple(_aligned(_tokens(ours, known, encoder), _tokens(theirs, known, encoder))),
        tuple(_tokens(new, known, encoder)),
        (len(stream) - reuse - len(ours), len(prompt) - shown - len(new)),
    )


def _tokens(ids: Sequence[int], known: Mapping[int, Token], encoder: Encoder) -> list[Token]:
    """The tokens; a character that several of them share is the first one's."""
    tokens = [known[one] for one in ids]
    start = 0
    while start < len(tokens):
        end = start
        while end < len(tokens) and _PART in tokens[end].text:
            end += 1
        if end - start > 1 and _PART not in (whole := encoder.decode(ids[start:end])):
            texts = [whole, *[""] * (end - start - 1)]
            tokens[start:end] = [
                replace(token, text=text, special=text in encoder.special_tokens())
                for token, text in zip(tokens[start:end], texts, strict=True)
            ]
        start = end + 1
    return tokens


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
