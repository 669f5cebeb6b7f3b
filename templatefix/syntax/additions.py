"""What transformers adds to Jinja's language (5.x, ``utils/chat_template_utils.py``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser


class GenerationTag(Extension):
    """``{% generation %}``: prints its body; a scope of its own, like any call block."""

    tags = {"generation"}  # noqa: RUF012 - Jinja reads it from the class

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter of that name, in place of Jinja's own, which escapes what HTML takes for tags."""
    # As json.dumps does, which makes an encoder for every call.
    options = (ensure_ascii, indent, separators, sort_keys)
    encoder = _known_encoder(*options) if _is_usual(options) else _encoder(*options)
    return encoder.encode(value)


def remembering_tojson() -> Callable[..., str]:
    """``tojson`` that remembers the texts of objects it is given again, such as a request's tools.

    For renderings in which nobody changes an object: neither templates can, in their sandbox, nor
    whoever calls them may.
    """
    # What is known by its identity is kept, lest the identity become another object's.
    known: dict[Hashable, tuple[Any, str]] = {}
    room = _MOST_CHARACTERS

    def remembering(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        nonlocal room
        options = (ensure_ascii, indent, separators, sort_keys)
        if type(value) not in (dict, list) or not _is_usual(options):
            return tojson(value, *options)
        key = (id(value), options)
        found = known.get(key)
        if found is not None:
            return found[1]
        text = tojson(value, *options)
        if len(text) <= room and len(known) < _MOST_TEXTS:
            room -= len(text)
            known[key] = (value, text)
        return text

    return remembering


#: Texts that are remembered, and the characters of them all.
_MOST_TEXTS, _MOST_CHARACTERS = 200, 1_000_000


def _is_usual(options: tuple[Any, ...]) -> bool:
    """Whether options are of the types that they should have: then equal ones do the same."""
    ensure_ascii, indent, separators, sort_keys = options
    return (
        type(ensure_ascii) is bool
        and (indent is None or type(indent) is int)
        and (
            separators is None
            or (type(separators) is tuple and set(map(type, separators)) == {str})
        )
        and type(sort_keys) is bool
    )


def _encoder(
    ensure_ascii: bool, indent: int | None, separators: tuple[str, str] | None, sort_keys: bool
) -> json.JSONEncoder:
    return json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


_known_encoder = lru_cache(maxsize=16)(_encoder)
