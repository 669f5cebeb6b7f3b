"""What vLLM makes of argument values under the tool's JSON schema (0.32.0)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

Tools = Sequence[Mapping[str, Any]] | None

_ALIASES = {
    **dict.fromkeys(("str", "text", "varchar", "char", "enum"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "uint", "uint32", "uint64"), "integer"),
    **dict.fromkeys(("long", "short", "unsigned"), "integer"),
    **dict.fromkeys(("float", "float32", "float64", "double"), "number"),
    **dict.fromkeys(("arr", "list", "sequence"), "array"),
    "bool": "boolean",
    "dict": "object",
}


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def functions(tools: Tools) -> dict[str, Mapping[str, Any]]:
    """The parameter schemas of the request's tools, by name."""
    found: dict[str, Mapping[str, Any]] = {}
    for tool in tools or ():
        function = tool.get("function", tool)
        found.setdefault(function["name"], function.get("parameters") or {})
    return found


def fit(arguments: str, name: str, tools: Tools) -> str:
    """Arguments with values turned into the types that the schema names.

    The text stays untouched when no value changes, or when there is no schema for it.
    """
    properties = functions(tools).get(name, {}).get("properties")
    if not properties:
        return arguments
    try:
        values = json.loads(arguments)
    except ValueError:
        return arguments
    if not isinstance(values, dict):
        return arguments
    fitted = _fit_members(values, properties)
    return arguments if _same(fitted, values) else dump(fitted)


def _same(left: Any, right: Any) -> bool:
    return dump(left) == dump(right)


def _fit_members(values: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _fit(value, properties[key]) if isinstance(properties.get(key), dict) else value
        for key, value in values.items()
    }


def _fit(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return _coerce(value, _types(schema))
    if isinstance(value, dict):
        properties = schema.get("properties")
        return _fit_members(value, properties) if isinstance(properties, dict) else value
    if isinstance(value, list):
        items = schema.get("items")
        return [_fit(item, items) for item in value] if isinstance(items, dict) else value
    return _coerce(dump(value), _types(schema))


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return {"string"}
    named = schema.get("type")
    types = {named} if isinstance(named, str) else set()
    if isinstance(named, list):
        types |= {each for each in named if isinstance(each, str)}
    for member in schema.get("enum") or ():
        types.add(_type_of(member))
    for choice in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(choice) or ():
            types |= _types(option)
    return types or {"string"}


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, list) else "object"


def _coerce(text: str, types: set[str]) -> Any:
    """The first of the schema's types that the text can be read as; else JSON; else the text."""
    asked = {_ALIASES.get(t.strip().lower(), t.strip().lower()) for t in types}
    if "null" in asked and text.lower() == "null":
        return None
    if "integer" in asked:
        try:
            return int(text)
        except ValueError:
            pass
    if "number" in asked:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return int(number) if number == int(number) else number
    if "boolean" in asked:
        word = text.lower().strip()
        if word in ("true", "1", "false", "0"):
            return word in ("true", "1")
    # Objects, arrays and types unknown to vLLM are read as JSON of any kind; strings are not.
    if "string" in asked and not asked & {"object", "array"}:
        return text
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except ValueError:
        return text
    return value
