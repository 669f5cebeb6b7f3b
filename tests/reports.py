"""Reports on the corpus of real templates: made once, read by several tests."""

from __future__ import annotations

from functools import lru_cache

import pytest

from templatefix.api import CheckOptions, SourceOptions, check_target
from templatefix.findings.outcome import Report
from tests.corpus import corpus_entries, corpus_entry


@lru_cache(maxsize=128)
def corpus_report(model_id: str) -> Report:
    """The check of one model's template with its own tokenizer; skips without the corpus."""
    entry = corpus_entry(model_id)
    if entry is None:
        pytest.skip("the corpus of real templates is not beside the project")
    source = SourceOptions(tokenizer=str(entry.tokenizer) if entry.tokenizer else None)
    (report,) = check_target(str(entry.template), source, CheckOptions(full=True))
    return report


def corpus_model_ids() -> list[str]:
    """Every model of the corpus; skips without it."""
    found = [entry.model_id for entry in corpus_entries()]
    if not found:
        pytest.skip("the corpus of real templates is not beside the project")
    return found
