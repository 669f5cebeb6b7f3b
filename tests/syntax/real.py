"""The real templates that these tests read, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

_MODELS = Path(__file__).parents[3] / "shared" / "corpus" / "models"


def real_templates() -> list[Path]:
    """Every template of the corpus; skips the test where there is no corpus."""
    found = sorted(_MODELS.glob("*/*.jinja"))
    if not found:
        pytest.skip(f"no corpus of real templates at {_MODELS}")
    return found


def read(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()
