"""Values as JSON and back, by the types that their dataclasses declare.

The child is not trusted to send what it should: nothing is built but the declared types, and no
code is named by what is read, as a pickle's is.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses and mappings as objects, sequences and sets as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, frozenset):
        return sorted(plain(each) for each in value)
    return str(value) if isinstance(value, Path) else value


def typed(kind: type[T], value: Any) -> T:
    """The value of a type that :func:`plain` made this of. Raises ``TypeError`` otherwise."""
    return cast(T, _typed(kind, value))


def _typed(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(kind, parts, value)
    if origin is Literal:
        if value in parts:
            return value
    elif origin is tuple and isinstance(value, list):
        if len(parts) == 2 and parts[1] is ...:
            return tuple(_typed(parts[0], each) for each in value)
        if len(parts) == len(value):
            return tuple(_typed(part, each) for part, each in zip(parts, value, strict=True))
    elif origin is frozenset and isinstance(value, list):
        return frozenset(_typed(parts[0], each) for each in value)
    elif origin in (list, Sequence) and isinstance(value, list):
        return [_typed(parts[0], each) for each in value]
    elif origin in (dict, Mapping) and isinstance(value, dict):
        return {key: _typed(parts[1], each) for key, each in value.items()}
    elif is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        hints = _hints(kind)
        if value.keys() <= hints.keys():
            return kind(**{name: _typed(hints[name], each) for name, each in value.items()})
    elif kind is Path and isinstance(value, str):
        return Path(value)
    elif kind is float and type(value) is int:
        return float(value)
    elif isinstance(kind, type) and type(value) is kind:
        return value
    raise TypeError(f"no {kind}: {type(value).__name__}")


def _one_of(kind: Any, parts: tuple[Any, ...], value: Any) -> Any:
    for part in parts:
        if part is type(None):
            if value is None:
                return None
            continue
        try:
            return _typed(part, value)
        except TypeError:
            continue
    raise TypeError(f"no {kind}: {type(value).__name__}")


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
