"""The JSON report of a survey, version 1: the same for the same templates, whatever the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from templatefix.findings.survey import Surveyed, tally
from templatefix.report.edition import Edition
from templatefix.report.json_report import to_json

SCHEMA_VERSION = 1


def survey_json(
    surveyed: Sequence[Surveyed],
    asked: Mapping[str, Any],
    edition: Edition,
    versions: Mapping[str, str],
) -> str:
    """The document as text that ends in a newline.

    ``asked`` are the options that the outcomes depend on; what it took is not in it, since that
    differs from run to run.
    """
    counts = tally(surveyed)
    document: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "tool_version": edition.tool_version,
        "presentation": edition.presentation,
        "renderer": edition.renderer,
        "clock": edition.clock,
        "versions": dict(versions),
        **asked,
        "counts": {
            "templates": counts.templates,
            "breaking": counts.breaking,
            "outcomes": counts.outcomes,
            "rungs": {str(rung): count for rung, count in counts.rungs.items()},
            "clauses_against": counts.clauses,
        },
        "templates": [
            {
                "target": each.target,
                "file": each.display,
                "template_name": each.template_name,
                "sha256": each.sha256,
                "tokenizer": each.tokenizer_source,
                "outcome": each.outcome,
                "core_breaks": {"before": each.broken, "excluded_by_policy": each.excluded},
                "rung": each.rung,
                "clause": each.clause,
                "why": each.why,
            }
            for each in surveyed
        ],
    }
    return to_json(document) + "\n"
