"""The rules: one file per code, and the order in which they claim a divergence."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _load() -> Mapping[str, Rule]:
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name.startswith("tf"))
    rules = [importlib.import_module(f"{__name__}.{name}").RULE for name in names]
    return MappingProxyType({rule.code: rule for rule in rules})


#: Every rule by its code.
RULES: Mapping[str, Rule] = _load()

#: The first of these that holds names a divergence; the others that hold come after it.
ORDER = ("TF108", "TF301", "TF107", "TF111", "TF102", "TF101", "TF103", "TF106", "TF104")


def classify(evidence: Evidence) -> tuple[str, str, tuple[str, ...]]:
    """The code of a divergence, its detail, and the other codes that hold."""
    found: list[tuple[str, str]] = []
    for code in ORDER:
        holds = RULES[code].holds
        detail = holds(evidence) if holds is not None else None
        if detail is not None:
            found.append((code, detail))
    if not found:
        return "TF111", "", ()
    code, detail = found[0]
    also = [other for other, _ in found[1:]]
    if code in ("TF101", "TF102", "TF103"):
        # What stands after the divergence counts, too: it costs as much once this is mended.
        if evidence.content_is_altered:
            also.append("TF104")
        if evidence.calls_are_altered:
            also.append("TF106")
    return code, detail, tuple(dict.fromkeys(also))
