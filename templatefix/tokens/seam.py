"""The ids of a completion: what the model would have emitted after a prompt."""

from __future__ import annotations

from .encoder import Encoder


def completion_ids(
    encoder: Encoder, prompt_text: str, prompt_ids: list[int], completion_text: str
) -> list[int]:
    """The canonical ids of ``completion_text`` after the prompt.

    Where the joint encoding begins with the prompt's ids, its remainder is what a model writes.
    Only where a token straddles the seam is the completion encoded by itself, and then without
    the dummy space that SentencePiece tokenizers put before a text and that no model emits.
    """
    if not completion_text:
        return []
    joint = encoder.encode(prompt_text + completion_text)
    if joint[: len(prompt_ids)] == prompt_ids:
        return joint[len(prompt_ids) :]
    return encoder.encode_continuation(completion_text)
