"""The ready templates that ship: measured, up to date, and true to what they were measured on."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path

import pytest

from templatefix import __version__
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import prepare
from templatefix.findings.ready import EncoderName
from templatefix.patching.bench import Bench
from templatefix.patching.contract import verify
from templatefix.ready.measure import asked_of
from templatefix.ready.shelf import Ready, shelf
from templatefix.source import SourceOptions, load
from templatefix.source.template import sha256
from tests.corpus import family_tokenizer
from tests.packages import or_skip
from tests.ready.references import published


def _name(ready: Ready) -> str:
    return ready.name


SHIPPED = pytest.mark.parametrize("ready", shelf(), ids=_name)
ROOT = Path(__file__).parents[2]


@SHIPPED
def test_its_record_belongs_to_it(ready: Ready) -> None:
    """Else: ``python tools/record_ready.py``."""
    record, header = ready.record, ready.header
    assert record is not None
    assert record.sha256 == sha256(ready.text)
    assert record.versions["templatefix"] == __version__
    assert (record.name, record.policy, record.limits) == (ready.name, header.policy, header.limits)
    assert tuple(each.model_id for each in record.references) == header.references
    assert tuple(EncoderName(e.name, e.kwargs) for e in record.encoders) == header.encoders
    assert set(header.references) <= set(header.serves)
    for reference in record.references:
        assert not reference.patch.different or header.differs
        assert reference.generated >= 60
    for encoder in record.encoders:
        assert encoder.openings.prompts > 100
        assert (encoder.histories is None) == (encoder.kwargs is None)
        assert encoder.generated >= 60
    tokenizers = {e.tokenizer for e in record.references} | {e.tokenizer for e in record.encoders}
    assert not any("/" in name for name in tokenizers)  # no path of the machine that measured


@pytest.mark.corpus
@SHIPPED
def test_it_keeps_the_contract_against_what_is_published(ready: Ready, tmp_path: Path) -> None:
    """Without the search, which its record has; what was measured then is counted again."""
    header, asked = ready.header, asked_of(ready.header)
    assert ready.record is not None
    for reference in ready.record.references:
        template = or_skip(partial(published, reference, tmp_path))
        subject = prepare(template, asked)
        bench = Bench(subject, modes_of(subject, asked), header.policy, ready.record.block_size)
        proof = verify(bench, ready.text, max_examples=0, seed=0, fold=True)
        assert proof.violations == ()
        assert len(bench.trial(ready.text).runs) == reference.conversations


@pytest.mark.parametrize("ready", [each for each in shelf() if each.header.encoders], ids=_name)
def test_what_no_template_is_published_for_preserves_by_itself(ready: Ready) -> None:
    """What its encoder says to it is asked of a real vLLM: ``tests/vllm``."""
    header, asked = ready.header, asked_of(ready.header)
    assert ready.record is not None
    tokenizer = family_tokenizer(ready.name)
    options = SourceOptions(tokenizer=str(tokenizer) if tokenizer else None)
    (template,) = load(str(ready.path), options)
    subject = prepare(template, asked)
    trial = Bench(
        subject, modes_of(subject, asked), header.policy, ready.record.block_size
    ).original
    assert trial.failures == ()
    for encoder in ready.record.encoders:
        assert len(trial.runs) == encoder.conversations
        assert {run.completion for run in trial.runs} == {"training-view"}


def test_the_wheel_has_them() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["sources"]["patched_templates"] == (
        "templatefix/patched_templates"
    )
    assert shelf()
