"""Kwargs in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from templatefix.report.json_report import to_json


def kwargs_text(kwargs: Mapping[str, Any]) -> str:
    """``enable_thinking=true, effort="high"``: names and JSON values."""
    return ", ".join(f"{name}={to_json(value, indent=None)}" for name, value in kwargs.items())
