"""Variables have in our shorter code what they have in Jinja's, wherever they are set or not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.render import Crashed, JinjaRenderer, Refused, RenderRequest, SyntaxFault
from templatefix.render.trace import trace

_REQUEST = RenderRequest(
    [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}],
    kwargs={"given": "kwarg", "empty": ""},
)

_NAMES = ("a", "b", "given", "empty", "messages", "tools", "namespace", "m", "ns")
_name = st.sampled_from(_NAMES)
_test = st.one_of(
    _name,
    _name.map("{} is defined".format),
    _name.map("{} is undefined".format),
    st.builds("not {}".format, _name),
    st.builds("{} is defined and {}".format, _name, _name),
    st.builds("not {} is defined or {}".format, _name, _name),
    st.builds("({} or {}) is defined".format, _name, _name),
    st.builds("({} and {}) is defined".format, _name, _name),
)
_value = st.one_of(
    _name,
    st.builds("{} ~ '+'".format, _name),
    st.builds("({} if {} else {})".format, _name, _test, _name),
    st.builds("({} if {})".format, _name, _test),
    st.builds("({} and {})".format, _test, _name),
    st.builds("({} or {})".format, _test, _name),
    st.builds("f({})".format, _name),
    st.builds("f({}, y={})".format, _name, _name),
    st.sampled_from(("ns.kept", "namespace()", "namespace(kept=1)")),
    st.just("loop.index"),
)
_simple = st.one_of(
    st.builds("{{% set {} = {} %}}".format, _name, _value),
    st.builds("{{% set {}, {} = {}, 2 %}}".format, _name, _name, _value),
    st.builds("{{% set {} %}}<{{{{ {} }}}}>{{% endset %}}".format, _name, _value),
    st.builds("{{% set ns.kept = {} %}}".format, _value),
    st.builds("{{{{ {} is defined }}}}{{{{ {} }}}};".format, _name, _value),
    st.sampled_from(("{% set ns.f = f %}", "{{ ns.f(1) }}", "{% set ns.l = loop %}")),
    st.sampled_from(("{{ ns.l.nextitem }}", "{{ f() }}", "{{ m(_loop_vars=1) }}", "{{ self }}")),
)


def _around(body: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    block = st.lists(body, max_size=3).map("".join)
    return st.one_of(
        st.builds("{{% if {} %}}{}{{% endif %}}".format, _test, block),
        st.builds("{{% if {} %}}{}{{% else %}}{}{{% endif %}}".format, _test, block, block),
        st.builds(
            "{{% if {} %}}{}{{% elif {} %}}{}{{% else %}}{}{{% endif %}}".format,
            *(_test, block, _test, block, block),
        ),
        st.builds("{{% for {} in 'xy' %}}{}{{% endfor %}}".format, _name, block),
        st.builds("{{% for x in 'xyz' if {} %}}{}{{% endfor %}}".format, _test, block),
        st.builds("{{% for x in 'xy' %}}{}{{% break %}}{}{{% endfor %}}".format, block, block),
        st.builds("{{% for x in [] %}}{}{{% else %}}{}{{% endfor %}}".format, block, block),
        st.builds(
            "{{% for x in [['p']] recursive %}}{}{{{{ loop(x) if x is not string }}}}{{% endfor %}}"
            "".format,
            block,
        ),
        st.builds("{{% macro f(x, y={}) %}}{}{{% endmacro %}}".format, _name, block),
        st.builds("{{% call f(1) %}}{}{{% endcall %}}".format, block),
        st.builds("{{% with {} = {} %}}{}{{% endwith %}}".format, _name, _value, block),
        st.builds("{{% filter upper %}}{}{{% endfilter %}}".format, block),
        st.builds("{{% generation %}}{}{{% endgeneration %}}".format, block),
        st.builds("{{% autoescape true %}}{}{{% endautoescape %}}".format, block),
        st.builds("{{% block b %}}{}{{% endblock %}}".format, block),
    )


_statement = st.recursive(_simple, _around, max_leaves=12)
_FIRST = "{% set ns = namespace() %}{% macro f(x, y=2) %}{{ x }}{{ y }}{{ caller }}{% endmacro %}"


def _outcome(text: str, *, as_served: bool) -> object:
    try:
        return JinjaRenderer(text, as_served=as_served).render(_REQUEST)
    except (Refused, SyntaxFault, Crashed) as fault:
        return _told(fault)


def _traced(text: str) -> object:
    try:
        return trace(text, _REQUEST, {}).text
    except (Refused, SyntaxFault, Crashed) as fault:
        return _told(fault)


#: As Python and as Jinja name what remembers who printed it.
_PRINTED = re.compile(r"'(?:templatefix\.render\.trace_record\.)?Printed('?) object")


def _told(fault: Refused | SyntaxFault | Crashed) -> object:
    if not isinstance(fault, Crashed):
        return fault.message
    if fault.kind == "RecursionError":  # Python words it by what it was about to do
        return fault.kind, fault.line
    return fault.kind, _PRINTED.sub(r"'str\1 object", fault.message), fault.line


def _check(text: str) -> None:
    wanted = _outcome(text, as_served=True)
    assert _outcome(text, as_served=False) == wanted
    assert _traced(text) == wanted


@settings(max_examples=200, deadline=None)
@given(st.lists(_statement, min_size=1, max_size=6).map("".join))
def test_any_statements_print_what_they_print_at_a_server(text: str) -> None:
    _check(_FIRST + text)
    _check(text)


@pytest.mark.parametrize(
    "text",
    [
        "{% for a in 'xy' %}{% set b = a %}{% macro f() %}{{ b }}{% endmacro %}{% set ns.f = f %}"
        "{% endfor %}{{ ns.f() }}",
        "{% for a in 'xy' %}{% set b = 1 %}{% for c in 'pqr' if b %}{% set ns.l = loop %}"
        "{% break %}{% endfor %}{% endfor %}{{ ns.l.nextitem }}",
        "{% for a in 'xy' %}{% macro f() %}{{ messages }}{% endmacro %}{% set ns.f = f %}"
        "{% endfor %}{{ ns.f() }}",
        "{% set ns.a = 1 %}{% set ns = 5 %}{% set ns.a = 2 %}",
        "{% set ns.a = 1 %}{% if given %}{% set ns = 5 %}{% endif %}{% set ns.a = 2 %}",
        "{% set ns.a = 1 %}{% macro g() %}{% set ns.a = 2 %}{% endmacro %}"
        "{% set ns = 5 %}{{ g() }}",
        "{% set ns.a = 1 %}{% for x in 'xy' %}{% set ns.a = x %}{% set ns = 5 %}{% endfor %}",
        "{% if not a is defined %}{% set a = 1 %}{% endif %}{{ a }}",
        "{% if (a and b) is defined %}{{ a }}{{ b }}{% endif %}",
        "{% set a = 0 %}{% if (a and b) is defined %}{{ b }}{% endif %}",
    ],
)
def test_what_outlives_its_loop_finds_what_it_finds_at_a_server(text: str) -> None:
    _check(_FIRST + text)


def test_an_attribute_is_refused_on_the_line_that_sets_it() -> None:
    with pytest.raises(Crashed, match="cannot assign attribute") as at:
        JinjaRenderer("{{ 'a' }}\n\n{% set messages.x = 1 %}").render(_REQUEST)
    assert at.value.line == 3


@pytest.mark.parametrize(
    "call",
    ["()", "('<')", "(1, 2, 3)", "(1, 2, 3, 4)", "(z=1)", "(1, x=2)", "(1, none)", "(*[1, 2])"],
)
@pytest.mark.parametrize(
    "body",
    ["", "{{ varargs }}", "{{ kwargs }}", "{{ caller is defined }}", "{% set y = 5 %}{{ y }}"],
)
@pytest.mark.parametrize("around", ["%s", "{%% autoescape true %%}%s{%% endautoescape %%}"])
def test_macros_get_the_arguments_that_they_get_at_a_server(
    call: str, body: str, around: str
) -> None:
    macro = f"{{% macro g(x, y=2, z='<' ~ x) %}}{{{{ x }}}}{{{{ y }}}}{{{{ z }}}}{body}"
    _check(macro + "{% endmacro %}" + around % f"{{{{ g{call} }}}}{{{{ '<' ~ g{call} }}}}")
    _check(around % (macro + "{% endmacro %}") + f"{{{{ g{call} }}}}")
