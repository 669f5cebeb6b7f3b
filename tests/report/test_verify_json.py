"""The JSON report of a live verification says what its schema says."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from templatefix.findings.verification import Verification
from templatefix.report.verify_json import verify_json
from templatefix.serving.live import VerifyOptions, verify
from tests.serving.loopback import PRESERVING, SEPARATING, Manners, serving

BOTH = ("faithful", "reasoning-dropping")


def schema() -> dict[str, Any]:
    text = files("templatefix.report").joinpath("verify_schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def strict() -> dict[str, Any]:
    """A key that is written but not described is a promise nobody made."""
    text = json.dumps(schema())
    described: dict[str, Any] = json.loads(
        text.replace('"properties":', '"additionalProperties": false, "properties":')
    )
    return described


def document(manners: Manners, **options: Any) -> dict[str, Any]:
    with serving(manners) as loopback:
        verification: Verification = verify(
            loopback.url, VerifyOptions("tiny", seconds=20, **options)
        )
    parsed: dict[str, Any] = json.loads(verify_json(verification, "1.2.3"))
    return parsed


CASES: dict[str, tuple[Manners, dict[str, Any]]] = {
    "as it is": (Manners(), {"clients": BOTH, "turns": 3}),
    "a candidate": (Manners(trusts_templates=True), {"template": PRESERVING, "streaming": True}),
    "a store": (Manners(external=True, write_back=False), {"reset": True, "write_back": False}),
    "no ids": (Manners(token_ids=False, tokenize=False, detokenize=False, metrics=False), {}),
    "no figures": (Manners(details=False, metrics=False), {"block_size": 1}),
    "answers that are cut": (Manners(cut=True), {"max_tokens": 8}),
    "a gap": (Manners(template=SEPARATING, leaves_gap=True), {"tools": True}),
    "a server that dies": (Manners(fault="dies-before", at=2), {}),
    "a server that never answers": (Manners(fault="dies-before"), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_report_follows_the_schema(case: str) -> None:
    manners, options = CASES[case]
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(document(manners, **options), strict())


def test_the_schema_refuses_what_is_no_report() -> None:
    whole = document(Manners(), turns=2)
    follows = jsonschema.Draft202012Validator(schema()).is_valid
    assert follows(whole)
    for key in whole:
        assert not follows({k: v for k, v in whole.items() if k != key}), key
    (run,) = whole["runs"]
    turn = run["turns"][1]
    for key in turn:
        without = {k: v for k, v in turn.items() if k != key}
        assert not follows(whole | {"runs": [run | {"turns": [without]}]}), key
    assert not follows(whole | {"runs": [run | {"turns": [turn | {"lost_to": "nobody"}]}]})
