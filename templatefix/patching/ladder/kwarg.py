"""Rung 1: a kwarg that the template already has, its default baked in."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.patching.bench import Bench
from templatefix.patching.candidate import Candidate
from templatefix.patching.edits import Edit, apply
from templatefix.patching.proposals.text import literal


def candidates(bench: Bench) -> Iterator[Candidate]:
    """One candidate for each retention kwarg that mends all failures by itself."""
    source = bench.subject.parsed.text
    for setting in bench.modes.settings:
        if setting.effect != "retention" or not setting.retains:
            continue
        value = literal(setting.value) if isinstance(setting.value, str) else _spell(setting.value)
        name = setting.name
        tag = f"{{%- set {name} = {name} if {name} is defined else {value} %}}"
        if source.startswith("\n"):
            tag += "{{ '' }}"  # or the tag would swallow the newline that follows it
        edit = Edit(0, 0, tag)
        text = apply(source, [edit])
        trial = bench.trial(text)
        if trial.fault is None and not trial.failures:
            note = f"{name} is {value} unless the request says otherwise"
            yield Candidate(text, 1, (note,), (edit,), ((name, setting.value),))


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
