"""Named dialects: the layouts behind vLLM's ``--reasoning-parser`` and ``--tool-call-parser``."""

from __future__ import annotations

from .reasoning import SPELLINGS, ReasoningDialect, Spelling
from .reasoning_table import REASONING

__all__ = ["REASONING", "SPELLINGS", "ReasoningDialect", "Spelling"]
