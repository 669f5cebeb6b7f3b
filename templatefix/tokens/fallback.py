"""The tokenizer that ships with the program, for templates that come without their own.

Its counts are approximate, but the special tokens of a template have to be single tokens even
so: they are found by their shape in what the template prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

#: Names between delimiters that prose does not use. By shape, so that tomorrow's are found too.
_SHAPES = re.compile(
    r"""
      <[|｜][^<>|｜\s]{1,60}[|｜]?>      # <|im_end|>, <｜User｜>, <|tool>
    | </?[^<>/\s"'={}]{1,60}[|｜]?>      # <s>, </think>, <start_of_turn>, <tool|>
    | \[/?[a-z]?[A-Z][A-Z0-9_]{1,60}\]   # [INST], [/TOOL_CALLS], [gMASK]
    | \[[|｜][^\[\]|｜\s]{1,60}[|｜]\]   # [|assistant|]
    | [\[\]][^\s\w\[\]]?\w?~[^\s\[\]]{0,8}[\[\]]   # ]~b], [e~[
    """,
    re.VERBOSE,
)
_MOST = 1000


def shipped_tokenizer() -> Path:
    """The path of the shipped ``tokenizer.json``."""
    return Path(__file__).parents[1] / "example" / "tokenizer.json"


def special_token_shapes(literals: Iterable[str]) -> list[str]:
    """What looks like a special token in a template's texts, each once, in order.

    >>> special_token_shapes(["<|im_start|>user\\nHi", "[INST] <b", "a[0] <think>"])
    ['<|im_start|>', '[INST]', '<think>']
    """
    found = dict.fromkeys(shape for text in literals for shape in _SHAPES.findall(text))
    return list(found)[:_MOST]
