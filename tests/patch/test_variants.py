"""Candidates that are compiled together are the candidates compiled one by one."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

import pytest

from templatefix.checking import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.patching.bench import Bench
from templatefix.patching.contract.search import drawn
from templatefix.patching.edits import Edit, apply
from templatefix.patching.ladder import climb
from templatefix.patching.ladder.variants import MOST, variants
from templatefix.patching.proposals.insert import inserts
from templatefix.patching.proposals.pin import pins
from templatefix.patching.proposals.scene import Scene
from templatefix.patching.proposals.undo import undos
from templatefix.render import JinjaRenderer
from templatefix.replay.run import replay, rerun
from templatefix.syntax import parse
from tests.example import EXAMPLE
from tests.subjects import subject


@lru_cache(maxsize=1)
def bench() -> Bench:
    made = subject((EXAMPLE / "chat_template.jinja").read_text("utf-8"))
    return Bench(made, modes_of(made, CheckOptions()), "keep-reasoning", 16)


@lru_cache(maxsize=1)
def proposals() -> tuple[tuple[Edit, ...], ...]:
    scene = Scene(bench(), bench().original, bench().original.failures[0])
    found = (edits for propose in (pins, inserts, undos) for edits in propose(scene))
    return tuple(islice(dict.fromkeys(found), MOST))


def test_they_render_alike() -> None:
    its = bench()
    template = its.subject.parsed
    servers = variants(its, template, proposals())
    assert len(servers) > len(proposals()) / 2 > 3
    sample = climb._sample(its.original.failures)[:3]
    original = {r.prompt for f in its.original.failures for r in f.run.requests}
    changed = 0
    for number, server in servers.items():
        text = apply(template.text, proposals()[number])
        together = its.drive(text, server, sample)
        alone = its.trial(text, sample)
        assert together.fault is None
        prompts = [[request.prompt for request in run.requests] for run in alone.runs]
        assert [[request.prompt for request in run.requests] for run in together.runs] == prompts
        changed += any(prompt not in original for run in prompts for prompt in run)
    assert changed > 3


def test_edits_outside_of_expressions_are_left_to_their_own_templates() -> None:
    template = parse("{{ a }}text{% if b %}{{ c }}{% endif %}")
    at = template.text.index
    inside = Edit(at("a"), at("a") + 1, "messages | length")
    test = Edit(at("b %"), at("b %") + 1, "not b")
    outside = Edit(at("text"), at("text"), "{{ 1 }}")
    servers = variants(bench(), template, [(inside,), (outside,), (test, outside), (inside, test)])
    assert set(servers) == {0, 3}
    messages = [{"role": "user", "content": "Hello"}]
    assert servers[0].prompt(messages, None, {"c": "c"}) == "1text"
    assert servers[3].prompt(messages, None, {"c": "c"}) == "1textc"


def test_one_that_does_not_compile_leaves_all_to_their_own_templates() -> None:
    template = parse("{{ a }}")
    assert variants(bench(), template, [(Edit(3, 4, "b"),), (Edit(3, 4, "b b"),)]) == {}


def test_one_step_compiles_far_less_often_than_it_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = 0
    make = JinjaRenderer.__init__

    def counted(self: JinjaRenderer, *args: Any) -> None:
        nonlocal compiled
        compiled += 1
        make(self, *args)

    monkeypatch.setattr(JinjaRenderer, "__init__", counted)
    its, seen = bench(), set[str]()
    text, sample = its.subject.parsed.text, climb._sample(its.original.failures)[:2]
    begun = climb._State(text, its.drive(text, its.subject.server, sample), 0)
    grown = list(climb._grow(its, begun, (pins, inserts, undos), sample, seen))
    assert grown
    assert len(seen) > 10
    assert compiled < len(seen) / 2


def test_a_conversation_on_another_server_is_the_one_that_would_be_replayed_there() -> None:
    its = bench()
    text = its.subject.parsed.text.replace("loop.index0 > seen.question and", "")
    assert text != its.subject.parsed.text
    server, author, encoder = its.server(text), its.subject.author, its.subject.encoder
    for plan in its.spoken:
        anew = replay(plan, author, encoder, 16, server)
        assert rerun(its.replayed(plan), server, encoder, 16) == anew


def test_every_candidate_is_shown_the_same_conversations() -> None:
    its = bench()
    found = drawn(its, 5, 0)
    assert len({repr(each) for each in found}) == len(found) >= 5
    assert drawn(its, 5, 0) is found
    again = Bench(its.subject, its.modes, its.policy, its.block_size)
    assert drawn(again, 5, 0) == found
    assert drawn(again, 5, 1) != found
