"""What a server's Prometheus counters say about one request: how far they moved.

vLLM counts ``vllm:prefix_cache_queries`` and ``_hits`` in its own cache, and
``vllm:external_prefix_cache_*`` in a store behind it, all in tokens (vLLM 0.32,
``v1/metrics/loggers.py``). SGLang counts ``sglang:prompt_tokens_total`` and
``sglang:cached_tokens_total``, the latter by ``cache_source``. Both may have one series for each
engine: they add up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(
    r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<number>[-+.\deEinfNaI]+)(?:\s+-?\d+)?$",
    re.ASCII,
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"', re.ASCII)


@dataclass(frozen=True)
class Counters:
    """Totals since the server started, in tokens; None for what it does not count."""

    queried: float | None = None
    local: float | None = None
    external: float | None = None
    block_size: int | None = None

    @property
    def present(self) -> bool:
        return self.queried is not None and self.local is not None


@dataclass(frozen=True)
class Movement:
    """What one request moved: tokens of prompts looked up, and found in either cache."""

    queried: int
    local: int
    external: int | None


def counters_of(exposition: str) -> Counters:
    """The counters in a page of Prometheus text; lines that are none of them are passed over."""
    totals: dict[str, float] = {}
    block_size = None
    for line in exposition.splitlines():
        if not line.startswith(("vllm:", "sglang:")):
            continue
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        engine, _, name = sample["name"].partition(":")
        labels = dict(_LABEL.findall(sample["labels"] or ""))
        if name == "cache_config_info":
            block_size = _block_size(labels) or block_size
            continue
        try:
            number = float(sample["number"])
        except ValueError:
            continue
        what = _meaning(engine, name.removesuffix("_total"), labels)
        if what is not None:
            totals[what] = totals.get(what, 0.0) + number
    return Counters(totals.get("queried"), totals.get("local"), totals.get("external"), block_size)


def movement(before: Counters, after: Counters) -> Movement | None:
    """The difference; None where there is nothing to count with or a counter went back."""
    if not (before.present and after.present):
        return None
    queried = _moved(before.queried, after.queried)
    local = _moved(before.local, after.local)
    external = None if after.external is None else _moved(before.external or 0.0, after.external)
    if min(queried, local, external or 0) < 0:
        return None
    return Movement(queried, local, external)


def _moved(before: float | None, after: float | None) -> int:
    difference = (after or 0.0) - (before or 0.0)
    # A counter may be infinite or no number at all: such a one never moves.
    return int(difference) if abs(difference) < 1e15 else 0


def _meaning(engine: str, name: str, labels: Mapping[str, str]) -> str | None:
    if engine == "vllm":
        return {
            "prefix_cache_queries": "queried",
            "prefix_cache_hits": "local",
            "external_prefix_cache_hits": "external",
        }.get(name)
    if name == "cached_tokens":
        return "local" if labels.get("cache_source", "device") == "device" else "external"
    return "queried" if name == "prompt_tokens" else None


def _block_size(labels: Mapping[str, str]) -> int | None:
    """What hits are multiples of: vLLM's hybrid models align them to more than a block."""
    for label in ("cache_hit_alignment_tokens", "block_size", "page_size"):
        text = labels.get(label, "")
        if text.isdecimal() and 0 < int(text[:9]) == int(text):
            return int(text)
    return None
