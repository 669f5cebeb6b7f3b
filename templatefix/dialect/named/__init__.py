"""Named dialects: the layouts behind vLLM's ``--reasoning-parser`` and ``--tool-call-parser``.

>>> answer = parse("r</think>A", REASONING["deepseek_r1"], None,
...                opened=True, thinking=True, tools=None)
>>> answer.reasoning, answer.content
('r', 'A')
"""

from __future__ import annotations

from collections.abc import Mapping

from .infer import infer
from .reasoning import SPELLINGS, ReasoningDialect, Spelling
from .reasoning_table import REASONING
from .tool import ToolDialect
from .tool_table import TOOLS
from .turn import completion, losses, parse


def dialects() -> tuple[Mapping[str, ReasoningDialect], Mapping[str, ToolDialect]]:
    """The registries, by the names of vLLM's ``--reasoning-parser`` and ``--tool-call-parser``."""
    return REASONING, TOOLS


__all__ = [
    "REASONING",
    "SPELLINGS",
    "TOOLS",
    "ReasoningDialect",
    "Spelling",
    "ToolDialect",
    "completion",
    "dialects",
    "infer",
    "losses",
    "parse",
]
