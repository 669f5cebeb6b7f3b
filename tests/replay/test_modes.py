"""Request kwargs are told apart by what they do, and not too many are swept."""

from __future__ import annotations

from typing import Any

from templatefix.chat.battery import BATTERY
from templatefix.checking import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.replay.modes import LIMIT, Modes, Setting, discover
from templatefix.replay.sweep import plan, without_system
from tests.subjects import APPENDS, PROMPT, branches, report, subject

_TURN = "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}"
_CLOSED = "{{- '<think></think>' }}"


def _modes(text: str) -> Modes:
    return modes_of(subject(text), CheckOptions())


def _effects(text: str) -> dict[tuple[str, Any], str]:
    return {(s.name, s.value): s.effect for s in _modes(text).settings}


def test_a_kwarg_that_changes_the_generation_prompt_is_a_mode() -> None:
    text = branches(_TURN, "{%- if not think %}" + _CLOSED + "{% endif %}")
    assert _effects(text) == {("think", True): "mode"}
    assert _modes(text).sweep == ({}, {"think": True})


def test_a_kwarg_that_shows_more_of_past_answers_is_swept_with_every_mode() -> None:
    text = branches(
        "{%- if keep and message.reasoning_content is defined %}"
        "{{- message.reasoning_content }}{% endif %}" + _TURN,
        "{%- if not think %}" + _CLOSED + "{% endif %}",
    )
    assert _effects(text) == {("think", True): "mode", ("keep", True): "retention"}
    retained = [s for s in _modes(text).settings if s.retains]
    assert [s.name for s in retained] == ["keep"]
    assert list(_modes(text).sweep) == [
        {},
        {"think": True},
        {"keep": True},
        {"think": True, "keep": True},
    ]


def test_a_kwarg_that_shows_less_of_past_answers_is_known_but_not_swept() -> None:
    text = branches(
        "{%- if not clear and message.reasoning_content is defined %}"
        "{{- message.reasoning_content }}{% endif %}" + _TURN
    )
    (setting,) = _modes(text).settings
    assert (setting.name, setting.effect, setting.retains) == ("clear", "retention", False)
    assert _modes(text).sweep == ({},)


def test_a_kwarg_that_changes_what_comes_before_history_is_a_head_kwarg() -> None:
    text = "{%- if effort == 'high' %}{{- 'Think hard.' }}{% endif %}" + APPENDS
    assert _effects(text) == {("effort", "high"): "head"}


def test_a_kwarg_that_matters_with_tools_only_is_a_head_kwarg() -> None:
    text = "{%- if tools and compact %}{{- 'Tools.' }}{% endif %}" + APPENDS
    assert _effects(text) == {("compact", True): "head"}


def test_a_kwarg_without_effect_or_under_which_nothing_renders_is_no_mode() -> None:
    assert _modes("{%- if nothing %}{% endif %}" + APPENDS).settings == ()
    refused = "{%- if odd %}{{- raise_exception('no') }}{% endif %}" + APPENDS
    assert _modes(refused).sweep == ({},)


def test_at_most_sixteen_modes_are_swept_and_the_rest_is_listed() -> None:
    names = [f"mode_{i}" for i in range(LIMIT + 4)]
    tails = "".join(f"{{%- if {name} %}}{{{{- '<{name}>' }}}}{{% endif %}}" for name in names)
    modes = _modes(branches(_TURN, tails))
    assert len(modes.sweep) == LIMIT == 16
    assert modes.sweep[0] == {}
    assert [*modes.sweep[1:], *modes.left_out] == [{name: True} for name in names]
    left = [entry.what for entry in report(branches(_TURN, tails)).coverage.not_evaluated]
    assert f"kwargs {names[-1]}=true" in left


def test_true_and_one_are_different_values() -> None:
    ready = subject(branches(_TURN, "{%- if depth is true %}" + _CLOSED + "{% endif %}"))
    found = discover(ready.server, [("depth", (1, True))]).settings
    assert found == (Setting("depth", True, "mode"),)


def test_core_runs_come_in_every_mode_and_edge_runs_in_the_default_and_modes_proper() -> None:
    settings = (Setting("m", True, "mode"), Setting("h", True, "head"))
    modes = Modes(({}, {"m": True}, {"h": True}), settings)
    plans = list(plan(modes))
    core = {(p.scenario.name, str(p.kwargs)) for p in plans if p.core}
    names = {s.name for s in BATTERY if s.core}
    assert core == {(name, str(kwargs)) for name in names for kwargs in modes.sweep}
    assert {str(p.kwargs) for p in plans if not p.core} == {"{}", "{'m': True}"}
    switched = [p for p in plans if p.scenario.name == "mode-switch"]
    assert [[dict(t.kwargs) for t in p.scenario.turns] for p in switched] == [
        [{}, {"m": True}, {}, {"m": True}]
    ]
    assert len({p.id for p in plans}) == len(plans)


def test_other_clients_and_forms_are_edge() -> None:
    plans = list(plan(Modes(({},), ())))
    assert all(p.client == "faithful" and p.replay == "raw" for p in plans if p.core)
    assert {p.replay for p in plans} == {"raw", "verbatim", "stripped", "inline"}


def test_a_scenario_without_its_system_message_keeps_everything_else() -> None:
    for scenario in BATTERY:
        bare = without_system(scenario)
        roles = [m["role"] for turn in bare.turns for m in turn.new_messages]
        assert "system" not in roles
        assert [turn.answer for turn in bare.turns] == [turn.answer for turn in scenario.turns]


def test_a_template_without_kwargs_has_its_default_mode() -> None:
    assert _modes(APPENDS).sweep == ({},)
    assert _modes(PROMPT + APPENDS).sweep == ({},)
