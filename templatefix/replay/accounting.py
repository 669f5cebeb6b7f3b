"""Block accounting: what of a stream the next prompt can reuse, in tokens.

vLLM holds KV for every token of a stream but the last, keeps full blocks only, and never counts
the last token of a prompt as a hit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

#: Of a stream's end, so many tokens are enough to know it again by.
_END = 64


def hit_tokens(reuse: int, stream: int, prompt: int, block_size: int) -> int:
    """Tokens of a prompt that the server finds in its cache.

    ``reuse`` is the common prefix of the stream before and this prompt, ``stream`` and
    ``prompt`` are their lengths, all in tokens.
    """
    return max(0, min(reuse, stream - 1, prompt - 1)) // block_size * block_size


def ideal_tokens(stream: int, prompt: int, block_size: int) -> int:
    """The hit if the whole stream were a prefix of the prompt."""
    return hit_tokens(stream, stream, prompt, block_size)


def history_tokens(stream: Sequence[int], prompt: Sequence[int], reuse: int) -> int:
    """Tokens of a prompt that tell the conversation so far; what follows them is new in it.

    ``stream`` and ``prompt`` are token ids with a common prefix of ``reuse``. The history ends
    where the stream's last tokens stand in the prompt: the longest end of the stream that is found
    there, its last token (which may be told otherwise) or not. Where nothing of it is found, no
    more than ``reuse`` is known to be history.
    """
    if reuse >= len(stream) - 1:
        return reuse
    found, best = reuse, 0
    for end in (len(stream), len(stream) - 1):
        shortest = min(end - reuse, _END)
        for at in _places(prompt, stream[end - 1], reuse):
            length = 1
            while (
                length < shortest
                and at - length >= reuse
                and prompt[at - length] == stream[end - 1 - length]
            ):
                length += 1
            if length > best:
                found, best = at + 1, length
    return found


def _places(prompt: Sequence[int], token_id: int, start: int) -> Iterator[int]:
    """Where a token stands in a prompt, from a position on."""
    try:
        while True:
            start = prompt.index(token_id, start) + 1
            yield start - 1
    except ValueError:
        return


def recomputed_tokens(history: int, hit: int, stream: int, prompt: int, block_size: int) -> int:
    """Cached tokens that a prompt holds elsewhere than the cache does, so that they are computed
    again: its history as a hit, if the history were a prefix of the stream, less the real hit."""
    return max(0, hit_tokens(history, stream, prompt, block_size) - hit)
