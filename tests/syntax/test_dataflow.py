"""What printed text depends on, without rendering."""

from __future__ import annotations

import pytest

from templatefix.syntax import parse
from templatefix.syntax.dataflow import Influence, Where, dependences
from tests.corpus import corpus_directory, corpus_entries


def found(source: str) -> set[tuple[str, str, str]]:
    """Influence, where it prints, and the source of what hands it on."""
    template = parse(source)
    return {
        (str(each.influence), str(each.where), template.text[each.at.start : each.at.end])
        for each in dependences(template)
    }


def in_loop(body: str) -> str:
    return "{% for m in messages %}" + body + "{% endfor %}"


SCAN = (
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = loop.index0 %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("source", "at"),
    [
        (in_loop("{% if loop.last %}x{% endif %}"), "loop.last"),
        (in_loop("{% if m.a %}{% elif loop.last %}{% else %}x{% endif %}"), "loop.last"),
        (in_loop("{{ 'x' if loop.revindex0 == 1 }}"), "'x' if loop.revindex0 == 1"),
        (in_loop("{{ loop.length }}"), "loop.length"),
        (in_loop("{% set e = loop.last %}{% if e %}x{% endif %}"), "e"),
        (in_loop("{% if loop.last %}{% set e = 1 %}{% endif %}{{ e }}"), "e"),
        (in_loop("{% if loop.index < messages | length %}x{% endif %}"),
         "loop.index < messages | length"),
        (in_loop("{% if messages[-1].role %}x{% endif %}"), "messages[-1].role"),
        (in_loop("{{ messages[loop.index0 + 1].role }}"), "messages[loop.index0 + 1].role"),
        ("{% set last = messages | last %}" + in_loop("{{ last.role }}"), "last.role"),
        (SCAN + in_loop("{% if loop.index0 > ns.n %}x{% endif %}"), "loop.index0 > ns.n"),
        ("{% set rest = messages[1:] %}{% for m in rest %}{% if m == rest[-1] %}x{% endif %}"
         "{% endfor %}", "m == rest[-1]"),
        ("{% for i in range(messages | length) %}{% if loop.last %}x{% endif %}{% endfor %}",
         "loop.last"),
        ("{% macro show(m, last) %}{% if last %}x{% endif %}{% endmacro %}"
         + in_loop("{{ show(m, loop.last) }}"), "last"),
        (SCAN + "{% set old = messages[:ns.n] %}{% for m in old %}{{ m.role }}{% endfor %}", "old"),
    ],
)  # fmt: skip
def test_text_of_a_message_that_depends_on_later_ones_is_found(source: str, at: str) -> None:
    assert ("later-messages", "history", at) in found(source)


@pytest.mark.parametrize(
    "source",
    [
        in_loop("{{ m.role }}{{ loop.index0 }}{% if loop.first %}x{% endif %}"),
        in_loop("{{ messages[loop.index0 - 1].role }}{{ messages[0].role }}"),
        in_loop("{% for c in m.calls %}{% if not loop.last %}, {% endif %}{% endfor %}"),
        in_loop("{{ m.content }}{% if m.content | length > 1 %}x{% endif %}"),
        "{% set ns = namespace(n=0) %}" + in_loop("{% set ns.n = ns.n + 1 %}{{ ns.n }}"),
        # What a scan found out is only used after the messages.
        SCAN + in_loop("{{ m.role }}") + "{% if ns.n > 1 %}x{% endif %}",
        # A loop that prints nothing may look ahead for nobody.
        in_loop("{% if loop.last %}{% set x = 1 %}{% endif %}") + in_loop("{{ m.content }}"),
        # A macro's parameter is not the variable of the same name elsewhere.
        "{% macro a(x) %}{{ x }}{% endmacro %}{% macro b(x) %}{% endmacro %}"
        + in_loop("{{ a(m.role) }}{% set y = b(loop.last) %}"),
    ],
)
def test_text_that_depends_on_earlier_messages_only_is_not_found(source: str) -> None:
    assert "later-messages" not in {influence for influence, _, _ in found(source)}


def test_clock_and_chance_are_found_wherever_they_reach_the_text() -> None:
    assert found("{{ strftime_now('%d') }}" + in_loop("x")) == {
        ("clock", "head", "strftime_now('%d')")
    }
    assert found("{% set day = strftime_now('%d') %}" + in_loop("{{ day }}")) == {
        ("clock", "history", "day")
    }
    assert found(in_loop("{{ ['a', 'b'] | random }}")) == {
        ("randomness", "history", "['a', 'b'] | random")
    }


def test_kwargs_are_found_with_where_they_print() -> None:
    source = (
        "{% if effort == 'high' %}h{% endif %}"
        + in_loop("{% if keep %}x{% endif %}")
        + "{% if think %}t{% endif %}"
    )
    assert found(source) == {
        ("kwarg", "head", "effort == 'high'"),
        ("kwarg", "history", "keep"),
        ("kwarg", "tail", "think"),
    }


def test_a_dependence_names_its_origins_and_the_outputs_it_reaches() -> None:
    source = in_loop("{% set e = loop.last %}{% if e %}a{{ m.role }}{% else %}b{% endif %}c")
    template = parse(source)
    (each,) = dependences(template)
    assert (each.influence, each.where) == (Influence.LATER_MESSAGES, Where.HISTORY)
    assert each.conditional
    assert [origin.name for origin in each.origins] == ["loop.last"]
    outputs = [template.text[span.start : span.end] for span in each.outputs]
    assert outputs == ["a", "m.role", "b"]


def test_a_macro_prints_where_it_is_called() -> None:
    macro = "{% macro show() %}{{ strftime_now('%d') }}{% endmacro %}"
    for call, where in (
        ("{{ show() }}" + in_loop("x"), "head"),
        (in_loop("{{ show() }}"), "history"),
        (in_loop("x") + "{{ show() }}", "tail"),
    ):
        assert ("clock", where, "strftime_now('%d')") in found(macro + call)


@pytest.mark.corpus
@pytest.mark.skipif(corpus_directory() is None, reason="no corpus of real templates")
def test_the_known_position_dependences_of_real_templates_are_found() -> None:
    guilty = {
        "Qwen/Qwen3-8B": "loop.index0 > ns.last_query_index",
        "zai-org/GLM-4.5": "loop.index0 > ns.last_user_index and reasoning_content",
        "MiniMaxAI/MiniMax-M2": "reasoning_content and loop.index0 > ns.last_user_index",
        "openai/gpt-oss-20b": "message.thinking and not future_final_message.found",
        "mistralai/Mistral-7B-Instruct-v0.3": "loop.last and system_message is defined",
    }
    texts = {entry.model_id: entry.text for entry in corpus_entries()}
    for model, at in guilty.items():
        assert ("later-messages", "history", at) in found(texts[model]), model
