"""templatefix: chat templates whose history is the text that the model wrote.

>>> import templatefix
>>> template = templatefix.load("Qwen/Qwen3-8B")  # doctest: +SKIP
>>> templatefix.check(template).verdict  # doctest: +SKIP
'breaks'
>>> repaired = templatefix.patch(template, policy="keep-reasoning")  # doctest: +SKIP
>>> templatefix.simulate(template, served=repaired.text).preserving  # doctest: +SKIP
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from templatefix.library import check, load, patch, simulate

__version__ = "0.1.0"

__all__ = ["__version__", "check", "load", "patch", "simulate"]


def __getattr__(name: str) -> Any:
    # Late, since whoever wants the version alone, or the command's help, need not wait for it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from templatefix import library

    value = globals()[name] = getattr(library, name)
    return value
