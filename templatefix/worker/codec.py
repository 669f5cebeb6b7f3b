"""Values as JSON and back, by the types that their dataclasses declare.

The child is not trusted to send what it should: nothing is built but the declared types, and no
code is named by what is read, as a pickle's is.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

#: Types of values that are the same in JSON.
_ATOMS = frozenset({str, int, float, bool, type(None)})

#: Makes a value of one type; raises ``TypeError`` where it cannot be made of what is given.
_Reader = Callable[[Any], Any]


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses, sequences and sets as lists, mappings as objects.

    The values of a dataclass stand in the order of its fields: their names would be most of what
    is sent.
    """
    kind: Any = type(value)
    if kind in _ATOMS:
        return value
    names = _field_names(kind)
    # What needs no look is not asked about: most of a report is texts and numbers.
    if names is not None:
        return [
            each if type(each := getattr(value, name)) in _ATOMS else plain(each) for name in names
        ]
    if isinstance(value, (list, tuple)):
        return [each if type(each) in _ATOMS else plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: each if type(each) in _ATOMS else plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(plain(each) for each in value)
    return str(value) if isinstance(value, Path) else value


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None


def typed(kind: type[T], value: Any) -> T:
    """The value of a type that :func:`plain` made this of. Raises ``TypeError`` otherwise."""
    asked: Any = kind
    return cast(T, _reader(asked)(value))


@cache
def _reader(kind: Any) -> _Reader:
    """Types are looked into once: a report has hundreds of values."""
    if kind is Any:
        return lambda value: value
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(kind, parts)
    if origin is Literal:
        return _literal(kind, parts)
    if origin is tuple and len(parts) == 2 and parts[1] is ...:
        return _sequence(kind, tuple, parts[0])
    if origin is tuple:
        return _pairwise(kind, parts)
    if origin is frozenset:
        return _sequence(kind, frozenset, parts[0])
    if origin in (list, Sequence):
        return _sequence(kind, list, parts[0])
    if origin in (dict, Mapping):
        return _mapping(kind, parts[1])
    if is_dataclass(kind) and isinstance(kind, type):
        return _object(kind)
    if kind is Path:
        return _checked(kind, lambda value: isinstance(value, str), Path)
    if kind is float:
        return _checked(kind, lambda value: type(value) in (int, float), float)
    return _same(kind)


def _same(kind: Any) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _no(kind, value)
        return value

    return read


def _literal(kind: Any, parts: tuple[Any, ...]) -> _Reader:
    def read(value: Any) -> Any:
        if value not in parts:
            raise _no(kind, value)
        return value

    return read


def _checked(kind: Any, fits: Callable[[Any], bool], make: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if not fits(value):
            raise _no(kind, value)
        return make(value)

    return read


def _sequence(kind: Any, make: Callable[[Any], Any], part: Any) -> _Reader:
    reader = _reader(part)

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise _no(kind, value)
        return make(map(reader, value))

    return read


def _pairwise(kind: Any, parts: tuple[Any, ...]) -> _Reader:
    readers = [_reader(part) for part in parts]
    return _checked(
        kind,
        lambda value: isinstance(value, list) and len(value) == len(readers),
        lambda value: tuple(read(each) for read, each in zip(readers, value, strict=True)),
    )


def _mapping(kind: Any, part: Any) -> _Reader:
    read = _reader(part)
    return _checked(
        kind,
        lambda value: isinstance(value, dict),
        lambda value: {key: read(each) for key, each in value.items()},
    )


def _object(kind: type) -> _Reader:
    readers: list[tuple[frozenset[type], _Reader]] = []

    def read(value: Any) -> Any:
        if not readers:  # not before: a type may hold itself
            hints = get_type_hints(kind)
            parts = [hints[each.name] for each in fields(kind)]
            readers.extend((_taken_as_they_are(part), _reader(part)) for part in parts)
        if type(value) is not list or len(value) != len(readers):
            raise _no(kind, value)
        return kind(
            *[
                each if type(each) in taken else reader(each)
                for each, (taken, reader) in zip(value, readers, strict=True)
            ]
        )

    return read


def _taken_as_they_are(kind: Any) -> frozenset[type]:
    """The types of those values that are a field's without a look at anything else."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return frozenset(parts) if _ATOMS.issuperset(parts) else frozenset()


def _one_of(kind: Any, parts: tuple[Any, ...]) -> _Reader:
    optional = type(None) in parts
    readers = [_reader(part) for part in parts if part is not type(None)]
    if optional and len(readers) == 1:
        return _optional(readers[0])

    def read(value: Any) -> Any:
        if value is None and optional:
            return None
        for reader in readers:
            try:
                return reader(value)
            except TypeError:
                continue
        raise _no(kind, value)

    return read


def _optional(reader: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        return None if value is None else reader(value)

    return read


def _no(kind: Any, value: Any) -> TypeError:
    return TypeError(f"no {kind}: {type(value).__name__}")
