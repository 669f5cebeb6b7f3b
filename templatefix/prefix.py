"""The common prefix of two sequences, by halving: slices compare in C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many leading items (tokens, or characters of a text) ``a`` and ``b`` share.

    >>> common_prefix([5, 6, 7], [5, 6, 8, 9]), common_prefix("history", "histogram")
    (2, 5)
    """
    if len(a) > len(b):
        a, b = b, a
    low, high = 0, len(a)
    if a == b[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
