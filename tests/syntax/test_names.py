"""Names that a template takes from outside."""

from __future__ import annotations

import pytest
from jinja2.meta import find_undeclared_variables

from templatefix.syntax import (
    Unparsable,
    kwargs,
    literals,
    named_kwargs,
    parse,
    reads_attribute,
    reads_messages,
    unknown_names,
)
from templatefix.syntax.template import parsing_environment
from tests.corpus import corpus_directory, corpus_entries


def values(source: str) -> dict[str, tuple[object, ...]]:
    return {kwarg.name: kwarg.values for kwarg in kwargs(parse(source))}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}{{ m }}{% endfor %}", True),
        ("{{ messages[0].content }}", True),
        ("{{ page.title }}", False),
        ("{% set messages = [1] %}{{ messages }}", False),
        ("{{ x.messages }}", False),
    ],
)
def test_a_chat_template_is_one_that_reads_the_conversation(source: str, expected: bool) -> None:
    assert reads_messages(parse(source)) is expected


@pytest.mark.corpus
@pytest.mark.skipif(corpus_directory() is None, reason="no corpus of real templates")
def test_named_kwargs_are_those_of_jinja_on_every_real_template() -> None:
    for entry in corpus_entries():
        expected = find_undeclared_variables(parsing_environment().parse(entry.text))
        assert named_kwargs(parse(entry.text)) == expected, entry.model_id


def test_finding_names_does_not_evaluate_constants() -> None:
    bomb = "{{ 'x' * 10 ** 12 }}{{ 'x' * 10 ** 12 ~ seed }}"
    assert named_kwargs(parse(bomb)) == {"seed"}


def test_facts_leave_the_tree_as_it_was() -> None:
    source = "{{ 'a' + 'b' + mode }}{% if mode == 'x' %}{{ messages }}{% endif %}"
    template = parse(source)
    kwargs(template), named_kwargs(template), unknown_names(template), literals(template)
    assert template.ast == parsing_environment().parse(source)


def test_a_kwarg_used_for_its_truth_is_probed_with_both_booleans() -> None:
    assert values("{% if think %}a{% endif %}") == {"think": (True, False)}
    assert values("{{ 'a' if not think else 'b' }}") == {"think": (True, False)}
    assert values("{% if think is defined and think is false %}a{% endif %}") == {
        "think": (True, False)
    }


@pytest.mark.parametrize(
    "use",
    [
        "{% if effort == 'high' %}a{% elif effort != 'low' %}b{% endif %}",
        "{% if effort in ['high', 'low'] %}a{% endif %}",
        "{% if effort|lower == 'high' or effort.lower() == 'low' %}a{% endif %}",
        "{% set e = effort | default(none) %}{% if e in ('high', 'low') %}a{% endif %}",
        "{% set ns = namespace(e=effort) %}{% if ns.e == 'high' or ns.e == 'low' %}a{% endif %}",
        "{% set ns = namespace() %}{% set ns.e = effort %}{% if ns.e == 'high' %}{% endif %}"
        "{% if ns.e == 'low' %}a{% endif %}",
        "{% macro m(e) %}{% if e == 'high' or e == 'low' %}a{% endif %}{% endmacro %}"
        "{{ m(effort) }}",
        "{% if effort is defined and effort == 'high' %}{% set e = effort %}"
        "{% else %}{% set e = 'low' %}{% endif %}",
    ],
)
def test_a_kwarg_is_probed_with_the_strings_it_is_compared_with(use: str) -> None:
    found = values(use)["effort"]
    assert [value for value in found if isinstance(value, str)] == ["high", "low"]
    assert True not in found


def test_a_kwarg_is_probed_with_integers_and_with_its_default() -> None:
    assert values("{% if budget == 0 %}a{% endif %}") == {"budget": (0,)}
    assert values("{{ 'Effort: ' ~ (effort or 'medium') }}") == {"effort": ("medium",)}
    assert values(
        "{% if effort is not defined %}{% set effort = 'medium' %}{% endif %}{{ effort }}"
    ) == {"effort": ("medium",)}


def test_a_kwarg_of_unknown_use_is_probed_with_both_booleans() -> None:
    assert values("{% set x = think %}") == {"think": (True, False)}


def test_a_kwarg_that_must_be_a_list_is_not_probed() -> None:
    assert values("{% if extra %}{% for e in extra %}{{ e }}{% endfor %}{% endif %}") == {
        "extra": ()
    }


def test_a_printed_kwarg_is_free_text() -> None:
    found = {
        kwarg.name: kwarg.free
        for kwarg in kwargs(parse("{{ identity }}{{ 'on ' + date }}{% if think %}{% endif %}"))
    }
    assert found == {"identity": True, "date": True, "think": False}


def test_what_every_server_supplies_is_no_kwarg() -> None:
    source = (
        "{{ bos_token }}{{ image_mark }}{{ tools }}{{ documents }}{{ add_generation_prompt }}"
        "{{ raise_exception('x') }}{{ strftime_now('%d') }}{{ range(3) }}{{ namespace() }}"
        "{{ messages }}{{ think }}"
    )
    assert [kwarg.name for kwarg in kwargs(parse(source), {"image_mark"})] == ["think"]


def test_a_local_that_is_set_on_some_paths_is_no_kwarg() -> None:
    source = (
        "{% if messages[0].role == 'system' %}{% set head = messages[0].content %}{% endif %}"
        "{% if head is defined %}{{ head }}{% endif %}"
    )
    assert "head" in named_kwargs(parse(source))
    assert values(source) == {}


def test_a_kwarg_with_a_default_set_by_the_template_is_a_kwarg() -> None:
    assert values(
        "{% if think is not defined %}{% set think = messages|length > 1 %}{% endif %}"
        "{% if think %}a{% endif %}"
    ) == {"think": (True, False)}
    assert values("{% set think = think | default(false) %}{% if think %}a{% endif %}") == {
        "think": (True, False)
    }


def test_a_macro_parameter_hides_the_name_outside() -> None:
    source = (
        "{% macro show(content) %}{% if content is none %}-{% endif %}{{ content }}{% endmacro %}"
        "{% for m in messages %}{% if m.x %}{% set content = show(m.x) %}{% endif %}"
        "{{ content }}{% endfor %}"
    )
    assert values(source) == {}


def test_a_macro_parameter_does_not_hide_the_kwarg_that_is_handed_to_it() -> None:
    source = (
        "{% macro shown(messages, think) %}{% if think is defined and not think %}a{% endif %}"
        "{% endmacro %}{{ shown(messages, think) }}"
    )
    assert [kwarg.name for kwarg in kwargs(parse(source))] == ["think"]


def test_a_kwarg_says_whether_it_is_guarded_and_where_it_is_first_used() -> None:
    source = (
        "{{ messages }}\n  {% if think is defined and think %}a{% endif %}{% if raw %}{% endif %}"
    )
    think, raw = kwargs(parse(source))
    assert (think.name, think.guarded, tuple(think.position)) == ("think", True, (2, 9))
    assert (raw.name, raw.guarded) == ("raw", False)


@pytest.mark.parametrize(
    "use",
    [
        "{{ who }}",
        "{{ 'a' ~ who }}",
        "{{ 'a' + who }}",
        "{{ who | trim }}",
        "{{ who.name }}",
        "{{ who['name'] }}",
        "{{ who() }}",
        "{{ who | tojson }}",
        "{% for w in who %}a{% endfor %}",
    ],
)
def test_a_name_that_nobody_supplies_is_unknown(use: str) -> None:
    source = "{{ messages }}\n" + use
    (unknown,) = unknown_names(parse(source))
    assert (unknown.name, unknown.line) == ("who", 2)
    assert unknown.column == use.index("who") + 1


@pytest.mark.parametrize(
    "use",
    [
        "{% if who is defined %}{{ who }}{% endif %}",
        "{% if who %}{{ who }}{% endif %}",
        "{{ who | default('me') }}",
        "{% set who = 'me' %}{{ who }}",
        "{% if messages %}{% set who = 'me' %}{% endif %}{{ who }}",
        "{% if who == 'me' %}a{% endif %}",
        "{{ who_token }}",
        "{{ 'a' if who is not none else 'b' }}{{ who }}",
    ],
)
def test_a_name_that_is_optional_or_set_is_not_unknown(use: str) -> None:
    assert unknown_names(parse(use)) == ()


def test_literals_are_in_the_order_of_the_source() -> None:
    source = (
        "a{{ 'b' ~ m['c'] }}{% if x == 'd' %}e{% else %}f{% endif %}{{ g('h') if 'i' else 'j' }}"
    )
    assert literals(parse(source)) == ("a", "b", "c", "d", "e", "f", "h", "i", "j")


@pytest.mark.parametrize(
    "use",
    ["m.calls", "m['calls']", "m.get('calls')", "m | attr('calls')", "m | map(attribute='calls')"],
)
def test_every_way_to_read_a_field_counts(use: str) -> None:
    assert reads_attribute(parse("{{ " + use + " }}"), "calls")


@pytest.mark.parametrize("use", ["calls", "m.call", "'calls' in m", "m.get('x', 'calls')"])
def test_what_only_names_a_field_does_not_read_it(use: str) -> None:
    assert not reads_attribute(parse("{{ " + use + " }}"), "calls")


@pytest.mark.parametrize(
    "source",
    [
        "{% if x %}",
        "{{ x",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ " + "9" * 5000 + " }}",
        "{% endfor %}",
        "{% unknown_tag %}",
        "{{ '\\N{nothing}' }}",
    ],
)
def test_what_cannot_be_parsed_is_one_kind_of_error(source: str) -> None:
    with pytest.raises(Unparsable):
        parse(source)


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(Unparsable) as caught:
        parse("a\nb\n{{ x y }}")
    assert caught.value.line == 3


def test_a_chain_too_long_for_the_compiler_is_unparsable_and_not_a_crash() -> None:
    template = parse("{{ " + " + ".join(["x"] * 3000) + " }}")
    with pytest.raises(Unparsable):
        named_kwargs(template)
