"""Block accounting: what of a stream the next prompt can reuse, in tokens.

vLLM holds KV for every token of a stream but the last, keeps full blocks only, and never counts
the last token of a prompt as a hit.
"""

from __future__ import annotations


def hit_tokens(reuse: int, stream: int, prompt: int, block_size: int) -> int:
    """Tokens of a prompt that the server finds in its cache.

    ``reuse`` is the common prefix of the stream before and this prompt, ``stream`` and
    ``prompt`` are their lengths, all in tokens.
    """
    return max(0, min(reuse, stream - 1, prompt - 1)) // block_size * block_size


def ideal_tokens(stream: int, prompt: int, block_size: int) -> int:
    """The hit if the whole stream were a prefix of the prompt."""
    return hit_tokens(stream, stream, prompt, block_size)
