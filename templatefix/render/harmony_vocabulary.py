"""The vocabulary file of harmony's code, written from the tokenizer of the model itself.

``openai_harmony`` fetches ``o200k_base.tiktoken`` over the network unless a directory that has it
is named (source: its ``tiktoken_ext``, 0.0.8). The file says nothing that ``tokenizer.json`` of a
gpt-oss model does not say: one line for each token, its bytes in base 64 and its rank.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

VARIABLE = "TIKTOKEN_ENCODINGS_BASE"
_FILE = "o200k_base.tiktoken"


def write_vocabulary(tokenizer_json: Path, directory: Path) -> Path | None:
    """Write the file into ``directory`` and return that; None where the tokenizer is none of BPE.

    Whether it is the file that was asked for, harmony's code finds out by its checksum.
    """
    try:
        ranks = json.loads(tokenizer_json.read_bytes())["model"]["vocab"]
        text = _lines(ranks)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _FILE).write_bytes(text)
    return directory


def _lines(ranks: dict[str, Any]) -> bytes:
    spelled = _bytes_of_characters()
    return b"".join(
        base64.b64encode(bytes(spelled[each] for each in token)) + b" %d\n" % rank
        for token, rank in sorted(ranks.items(), key=lambda entry: int(entry[1]))
    )


def _bytes_of_characters() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for.

    Bytes that print as one character of Latin-1 stand for themselves; the others follow in their
    order from U+0100 on.
    """
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in printed]
    return {
        **{chr(byte): byte for byte in printed},
        **{chr(0x100 + at): byte for at, byte in enumerate(hidden)},
    }
