"""The record of a ready template: measured against the published ones, wherever these are."""

from __future__ import annotations

from collections.abc import Mapping

from templatefix import api
from templatefix.ready.encoders import against_encoder
from templatefix.ready.measure import measured
from templatefix.ready.record import record_json
from templatefix.ready.shelf import take
from templatefix.source import SourceOptions


def recorded(
    name: str, targets: Mapping[str, str], source: SourceOptions, max_examples: int
) -> str:
    """The text of the record. ``targets`` are where published templates are, by the ids that the
    header names; the others are on the hub. Raises ``TargetError``."""
    ready = take(name)
    published = [
        (model_id, api.the_template(targets.get(model_id, model_id), source))
        for model_id in ready.header.references
    ]
    encoders = [
        against_encoder(ready, named, api.the_template(str(ready.path), source), max_examples)
        for named in ready.header.encoders
    ]
    return record_json(measured(ready, published, max_examples, encoders))
