"""The comment at the head of a ready template: what it serves, what it changes, what it cannot do.

The header is written by hand, the record is measured: see :mod:`templatefix.ready.measure`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from templatefix.errors import TargetError
from templatefix.findings.ready import EncoderName, Header
from templatefix.policy import POLICIES, first_comment
from templatefix.ready.encoding import PREFIX

#: ``key: value``; a line that is indented deeper goes on with the value.
_FIELD = re.compile(r"(?P<key>[a-z][a-z-]*): +(?P<value>\S.*)")

#: The fields of a header: whether there has to be one, and whether there may be several.
_FIELDS = {
    "serves": (True, False),
    "reference": (True, True),
    "templatefix-policy": (True, False),
    "reasoning-parser": (False, False),
    "tool-call-parser": (False, False),
    "server-flag": (False, True),
    "change": (True, True),
    "differs": (False, True),
    "limit": (False, True),
}


def header_of(text: str, display: str) -> Header:
    """Read the header of a ready template; ``display`` is what errors call it.

    Raises ``TargetError`` where a field is missing, repeated or not known.

    >>> one = "{#- Ready.\\n  serves: a/b,\\n    a/c\\n  reference: a/b\\n  change: all.\\n"
    >>> header_of(one + "  templatefix-policy: lossless\\n-#}", "x").serves
    ('a/b', 'a/c')
    """
    comment = first_comment(text)
    if comment is None:
        raise TargetError(display, "has no header", "begin it with a comment, as the others do")
    found: dict[str, list[str]] = {}
    for key, value in _fields(comment):
        if key not in _FIELDS:
            raise TargetError(display, f"its header has an unknown field {key!r}", _known())
        found.setdefault(key, []).append(value)
    for key, (needed, repeated) in _FIELDS.items():
        if needed and key not in found:
            raise TargetError(display, f"its header says nothing of {key!r}", _known())
        if not repeated and len(found.get(key, ())) > 1:
            raise TargetError(display, f"its header has {key!r} twice", "give it once")
    policy = found["templatefix-policy"][0]
    if policy not in POLICIES:
        raise TargetError(display, f"no policy is named {policy!r}", " or ".join(POLICIES))
    return Header(
        serves=tuple(part.strip() for part in found["serves"][0].split(",")),
        references=tuple(each for each in found["reference"] if not each.startswith(PREFIX)),
        encoders=tuple(
            _encoder(each, display) for each in found["reference"] if each.startswith(PREFIX)
        ),
        policy=policy,
        reasoning_parser=_one(found, "reasoning-parser"),
        tool_call_parser=_one(found, "tool-call-parser"),
        server_flags=tuple(found.get("server-flag", ())),
        changes=tuple(found["change"]),
        differs=tuple(found.get("differs", ())),
        limits=tuple(found.get("limit", ())),
    )


def _fields(comment: str) -> Iterator[tuple[str, str]]:
    key, value, depth = "", "", 0
    for line in comment.split("\n"):
        words = " ".join(line.split())
        indent = len(line) - len(line.lstrip())
        field = _FIELD.fullmatch(words)
        if field is not None and (not key or indent <= depth):
            if key:
                yield key, value
            key, value, depth = field["key"], field["value"], indent
        elif key and words and indent > depth:
            value += " " + words
    if key:
        yield key, value


def _encoder(value: str, display: str) -> EncoderName:
    """``vllm:MODE``, and after it the kwargs that make it keep history, as JSON."""
    name, _, words = value.partition(" ")
    try:
        kwargs = json.loads(words) if words else None
    except ValueError:
        kwargs = words
    if kwargs is not None and not isinstance(kwargs, dict):
        message = f"after {name} its header has {words!r}, which is no JSON object"
        raise TargetError(display, message, "give the kwargs that make it keep history, or none")
    return EncoderName(name, kwargs)


def _one(found: dict[str, list[str]], key: str) -> str | None:
    return found[key][0] if key in found else None


def _known() -> str:
    return "fields: " + ", ".join(_FIELDS)
