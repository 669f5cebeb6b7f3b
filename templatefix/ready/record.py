"""The file that a ready template's record is kept in."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from templatefix.errors import TargetError
from templatefix.findings.ready import (
    Agreement,
    ChatReuse,
    Cost,
    EncoderReference,
    Patch,
    Record,
    Reference,
    TurnReuse,
)

#: Raised with every change of the keys.
FORMAT = 1


def record_json(record: Record) -> str:
    """The text of a record's file."""
    fields = {"format": FORMAT, **asdict(record)}
    if not record.encoders:
        del fields["encoders"]
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def record_from(text: str, display: str) -> Record:
    """Read a record's file. Raises ``TargetError`` where it is none."""
    try:
        fields = json.loads(text)
        if fields.pop("format") != FORMAT:
            raise ValueError("another format")
        references = tuple(_reference(each) for each in fields.pop("references"))
        encoders = tuple(_encoder(each) for each in fields.pop("encoders", ()))
        limits = tuple(fields.pop("limits"))
        return Record(**fields, references=references, encoders=encoders, limits=limits)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "write it again with templatefix ready record"
        raise TargetError(display, f"not a record of a ready template: {error}", hint) from None


def _reference(fields: dict[str, Any]) -> Reference:
    return Reference(**{**_measured(fields), "patch": Patch(**fields["patch"])})


def _encoder(fields: dict[str, Any]) -> EncoderReference:
    histories = fields["histories"]
    return EncoderReference(
        **{
            **_measured(fields),
            "openings": Agreement(**fields["openings"]),
            "histories": None if histories is None else Agreement(**histories),
        }
    )


def _measured(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that both kinds of reference have in a form of their own."""
    reuse = tuple(
        ChatReuse(
            chat["scenario"],
            chat["kwargs"],
            tuple(
                TurnReuse(
                    turn["turn"],
                    _pair(turn["prompt"]),
                    _pair(turn["cached"]),
                    _pair(turn["ideal"]),
                )
                for turn in chat["turns"]
            ),
        )
        for chat in fields["reuse"]
    )
    costs = tuple(Cost(**cost) for cost in fields["costs"])
    return {**fields, "modes": tuple(fields["modes"]), "reuse": reuse, "costs": costs}


def _pair(values: list[int]) -> tuple[int, int]:
    before, after = values
    return before, after
