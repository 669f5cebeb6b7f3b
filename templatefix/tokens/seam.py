"""The ids of a completion: what the model would have emitted after a prompt."""

from __future__ import annotations

from .encoder import Encoder


def stream_ids(
    encoder: Encoder, prompt_text: str, prompt_ids: list[int], completion_text: str
) -> list[int]:
    """The ids of the prompt and, behind them, the canonical ones of ``completion_text``.

    Where the joint encoding begins with the prompt's ids, its remainder is what a model writes.
    Only where a token straddles the seam is the completion encoded by itself, and then without
    the dummy space that SentencePiece tokenizers put before a text and that no model emits.
    """
    if not completion_text:
        return prompt_ids
    joint = encoder.encode(prompt_text + completion_text)
    if joint[: len(prompt_ids)] == prompt_ids:
        return joint
    return prompt_ids + encoder.encode_continuation(completion_text)


def completion_ids(
    encoder: Encoder, prompt_text: str, prompt_ids: list[int], completion_text: str
) -> list[int]:
    """The ids of ``completion_text`` after the prompt, as :func:`stream_ids` has them."""
    return stream_ids(encoder, prompt_text, prompt_ids, completion_text)[len(prompt_ids) :]
