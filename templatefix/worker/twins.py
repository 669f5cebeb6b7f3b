"""The child's twins of a live server: that of the served template and that of a candidate."""

from __future__ import annotations

from templatefix.serving.live.twin import Twin
from templatefix.source import ChatTemplate

_KNOWN: list[tuple[ChatTemplate, Twin]] = []
_MOST = 2


def twin_of(template: ChatTemplate) -> Twin:
    """The twin of a template, which is made once. Raises ``TargetError``."""
    for known, twin in _KNOWN:
        if known == template:
            return twin
    twin = Twin(template)
    _KNOWN[:] = [*_KNOWN[1 - _MOST :], (template, twin)]
    return twin
