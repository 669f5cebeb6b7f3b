"""Tracing tells who printed what, and never changes what is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from templatefix.render import Crashed, JinjaRenderer, Refused, RenderRequest, SyntaxFault
from templatefix.render.trace import Trace, trace
from templatefix.syntax import kwargs, parse
from tests.corpus import corpus_directory, corpus_entries

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'Weather, <b>now</b> & "here"',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "enum": ["a", "b"]},
                    "days": {"type": ["integer", "null"]},
                    "deep": {"type": "object", "properties": {"x": {"type": "array"}}},
                },
                "required": ["city"],
            },
        },
    }
]


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any, reasoning: str | None = None, *calls: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    if reasoning is not None:
        message |= {"reasoning": reasoning, "reasoning_content": reasoning}
    if calls:
        message["tool_calls"] = list(calls)
    return message


def call(arguments: Any, number: int = 0) -> dict[str, Any]:
    function = {"name": "weather", "arguments": arguments}
    return {"id": f"call0000{number}", "type": "function", "function": function}


def tool(content: Any, number: int = 0) -> dict[str, Any]:
    identity = f"call0000{number}"
    return {"role": "tool", "content": content, "tool_call_id": identity, "name": "weather"}


ARGUMENTS = {"city": "Zürich", "days": 1.0, "deep": {"x": ["y", None, True]}}
TOOL_ROUNDS = [
    user("u1"),
    assistant("a1", "r1", call(ARGUMENTS), call({}, 1)),
    tool("t1"),
    tool("t2", 1),
    assistant("a2", "r2", call('{"city": "B"}', 2)),
    tool("t3", 2),
    assistant("a3", "r3"),
    user("u2"),
]
REASONING = [
    system("s0"),
    user("u1"),
    assistant("a1", "r1"),
    user("u2"),
    assistant("a2", "\nr2\n"),
    user("u3"),
]
PARTS = [
    user([{"type": "text", "text": "p1"}, {"type": "text", "text": "p2"}]),
    assistant([{"type": "text", "text": "a1"}]),
    user([{"type": "image"}]),
]
CONVERSATIONS: list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = [
    ([user("u1"), assistant("a1"), user("u2"), assistant("a2"), user("u3")], None),
    ([system("Be s0."), user("u1"), assistant("a1"), user("u2")], None),
    ([user(" u1 \n"), assistant("\n\n a1 "), user(""), assistant(""), user("x")], None),
    (REASONING, None),
    ([user("u1"), assistant("<think>\nr1\n</think>\n\na1"), user("u2")], None),
    ([system("s0"), user("u1")], TOOLS),
    ([user("u1"), assistant("", "r1", call(ARGUMENTS)), tool("t1")], TOOLS),
    (TOOL_ROUNDS, TOOLS),
    ([user("u1"), assistant(None, None, call({})), tool("t1")], TOOLS),
    (PARTS, None),
    ([user("u1"), assistant("a1", "r1")], None),
    ([{"role": "developer", "content": "d0"}, user("u1")], None),
    ([assistant("a0"), user("u1"), user("u2")], None),
    ([{"role": "odd", "content": "x"}], None),
    ([], None),
]


def outcome(render: Any) -> tuple[object, ...]:
    """A text, or what kind of error with which words and at which line."""
    try:
        return ("text", render())
    except (Refused, Crashed, SyntaxFault) as error:
        if isinstance(error, Crashed) and error.kind == "RecursionError":
            return (error.kind,)  # how deep the stack was when it ended is not the template's
        return (type(error).__name__, error.args, getattr(error, "line", None))


def requests(source: str) -> Iterator[RenderRequest]:
    settings: list[Mapping[str, Any]] = [{}]
    for kwarg in kwargs(parse(source)):
        settings += [{kwarg.name: value} for value in kwarg.values]
    for messages, tools in CONVERSATIONS:
        yield RenderRequest(messages, tools, add_generation_prompt=False)
        for setting in settings:
            yield RenderRequest(messages, tools, add_generation_prompt=True, kwargs=setting)


def assert_same(source: str) -> int:
    """Traced and untraced agree in every request; returns how many gave a text."""
    renderer = JinjaRenderer(source, SPECIAL_TOKENS)
    texts = 0
    for request in requests(source):
        plain = outcome(lambda request=request: renderer.render(request))
        traced = outcome(lambda request=request: covered(trace(source, request, SPECIAL_TOKENS)))
        assert traced == plain
        texts += plain[0] == "text"
    return texts


def covered(traced: Trace) -> str:
    """The text, after making sure that the pieces cover it without gaps."""
    end = 0
    for piece in traced.pieces:
        assert piece.start == end < piece.end
        end = piece.end
    assert end == len(traced.text)
    return traced.text


@pytest.mark.corpus
@pytest.mark.skipif(corpus_directory() is None, reason="no corpus of real templates")
def test_tracing_changes_no_text_and_no_error_of_any_real_template() -> None:
    assert sum(assert_same(entry.text) for entry in corpus_entries()) > 4000


def test_tracing_changes_neither_text_nor_errors_of_hard_cases() -> None:
    source = """
{%- macro show(message, mark='*') %}{{ mark }}{{ message.content ~ 1.0 ~ none }}{% endmacro -%}
{%- macro wrap() %}[{{ caller() }}|{{ caller() | upper }}]{% endmacro -%}
{%- set block %}<{{ bos_token }}>{% endset -%}
{%- set trimmed | trim %}  {{ block }}  {% endset -%}
{{ block ~ trimmed }}{{ block + trimmed }}{{ 1 + 2 }}{{ [1] + [2] }}{{ ['a', block] }}
{%- for m in messages if m.role != 'system' and (m.content is string or not m.content) recursive %}
  {%- if loop.first or loop.last %}!{% elif loop.length > 3 and not loop.previtem %}?{% endif -%}
  {%- call wrap() %}{{ show(m) }}{{ show(message=m, mark=loop.index) | trim }}{% endcall -%}
  {% generation %}{{ m.content if m.content is string else 'none' }}{{ 'x' if 0 }}
  {%- endgeneration %}
  {%- if m.again %}{{ loop(m.again) }}{% endif %}
  {%- filter upper %}f{{ m.role }}{% endfilter %}
  {%- for c in m.tool_calls or [] %}{% if c.x %}{% break %}{% endif %}{{ c | tojson }}{% endfor %}
{%- else %}nobody{% endfor %}
{%- with x = messages | length %}{{ x }}{% endwith %}{{ undefined_name }}{{ true and 'y' or z }}
{%- block tail %}{{ strftime_now('%Y') }}{{ super is defined }}{% endblock %}
{%- if add_generation_prompt %}{{ {'k': block} | tojson }}{{ block | safe }}{{ '<' | e }}{% endif %}
{%- autoescape true %}{{ '<&>' }}<b>{{ block }}{{ block ~ '<' }}{% endautoescape %}
{%- if messages | length == 2 %}{{ raise_exception('two') }}
{%- elif not messages %}{{ 1 / 0 }}{% endif %}
"""
    assert assert_same(source) >= 10


@pytest.mark.parametrize(
    "source", ["{% if %}", "{% break %}", "{% set loop = 1 %}{{ x|nofilter }}", "{{ (" * 500]
)
def test_what_does_not_compile_is_a_syntax_fault(source: str) -> None:
    with pytest.raises(SyntaxFault):
        trace(source, RenderRequest([]), {})


def test_a_long_chain_is_traced_like_a_short_one() -> None:
    source = "{{ " + " + ".join(["x"] * 190) + " }}"
    assert trace(source, RenderRequest([], kwargs={"x": "y"}), {}).text == "y" * 190


def printed(source: str, messages: Any = (), **setting: Any) -> list[tuple[str, str, int | None]]:
    """Each piece's text, the source that printed it, and the message at hand."""
    traced = trace(source, RenderRequest(messages, kwargs=setting), {})
    covered(traced)
    return [
        (traced.text[start:end], source[span.start : span.end], message)
        for start, end, span, message in traced.pieces
    ]


def test_a_chain_of_strings_is_split_among_its_operands() -> None:
    assert printed("{{ 'a' + b ~ 'c' }}d", b="B") == [
        ("a", "'a'", None),
        ("B", "b", None),
        ("c", "'c'", None),
        ("d", "d", None),
    ]


def test_a_sum_of_numbers_is_one_piece() -> None:
    assert printed("{{ 1 + 2 }}{{ b + 0.5 }}", b=1) == [
        ("3", "1 + 2", None),
        ("1.5", "b + 0.5", None),
    ]


def test_an_inline_if_points_at_the_side_that_was_taken() -> None:
    assert printed("{{ 'a' + ('b' + c if c else 'none') }}", c="C") == [
        ("a", "'a'", None),
        ("b", "'b'", None),
        ("C", "c", None),
    ]


def test_what_a_macro_prints_points_into_the_macro() -> None:
    source = "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ 'a' ~ m('b') }}{% set s = m('c') %}{{ s }}"
    assert printed(source) == [
        ("a", "'a'", None),
        ("<", "<", None),
        ("b", "x", None),
        (">", ">", None),
        ("<", "<", None),
        ("c", "x", None),
        (">", ">", None),
    ]


def test_what_a_block_prints_points_into_the_block() -> None:
    assert printed("{% set s %}<{{ 'a' }}>{% endset %}{{ s }}") == [
        ("<", "<", None),
        ("a", "'a'", None),
        (">", ">", None),
    ]
    assert printed("{% generation %}<{{ a }}{% endgeneration %}", a="A")[1] == ("A", "a", None)
    assert printed(
        "{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}{{ 'in' }}{% endcall %}"
    )[1] == ("in", "'in'", None)


def test_what_a_filter_changed_points_at_what_printed_the_change() -> None:
    source = (
        "{% macro m() %} a {% endmacro %}{{ m() | trim }}"
        "{% filter upper %}b{{ 'c' }}{% endfilter %}"
    )
    assert printed(source) == [
        ("a", "m() | trim", None),
        ("BC", "{% filter upper %}b{{ 'c' }}{% endfilter %}", None),
    ]


TALK = [user("u0"), assistant("a1"), user("u2")]


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% for m in messages[:] if m.role %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% if loop.last %}{% endif %}{{ m.content }}{% endfor %}",
        "{% for i in range(3) %}{% set m = messages[i] %}{{ m.content }}{% endfor %}",
        "{% macro show(m) %}{{ m.content }}{% endmacro %}"
        "{{ show(messages[0]) }}{{ show(messages[1]) }}{{ show(messages[2]) }}",
        "{% macro show(m) %}{{ m.content }}{% endmacro %}"
        "{% for m in messages %}{{ show(m) }}{% endfor %}",
        "{% for m in messages %}{% for part in [m.content] %}{{ part }}{% endfor %}{% endfor %}",
        "{% for m in messages recursive %}{{ m.content }}{{ loop([]) }}{% endfor %}",
        "{% for pair in [1] %}{% for m in messages %}{{ m.content }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(c=[]) %}"
        "{% for m in messages %}{% set ns.c = ns.c + [{'role': m.role, 'content': m.content}] %}"
        "{% endfor %}{% for m in ns.c %}{{ m.content }}{% endfor %}",
    ],
)
def test_each_message_owns_what_its_iteration_prints(source: str) -> None:
    assert [(text, message) for text, _, message in printed(source, TALK)] == [
        ("u0", 0),
        ("a1", 1),
        ("u2", 2),
    ]


def test_what_a_loop_prints_of_itself_belongs_to_the_message_around() -> None:
    source = "{% for m in messages recursive %}{{ m.content }}{{ loop(m.parts or []) }}{% endfor %}"
    talk = [user("u0"), {**user("u1"), "parts": [{"content": "p", "parts": [{"content": "q"}]}]}]
    assert [(text, message) for text, _, message in printed(source, talk)] == [
        ("u0", 0),
        ("u1", 1),
        ("p", 1),
        ("q", 1),
    ]


def test_what_follows_a_loop_belongs_to_no_message() -> None:
    source = "{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}x{% endfor %}y"
    assert printed(source, TALK) == [("x", "x", 0), ("y", "y", None)]


def branches(source: str, messages: Any = (), **setting: Any) -> list[tuple[str, bool, int | None]]:
    traced = trace(source, RenderRequest(messages, kwargs=setting), {})
    return [
        (source[branch.span.start : branch.span.end], branch.outcome, branch.message)
        for branch in traced.branches
    ]


def test_a_condition_is_recorded_with_each_of_its_atoms() -> None:
    assert branches("{% if a and not (b or c is not none) %}{% endif %}", a=1, b="", c=2) == [
        ("a", True, None),
        ("b", False, None),
        ("c is not none", True, None),
        ("a and not (b or c is not none)", False, None),
    ]


def test_atoms_that_are_not_evaluated_are_not_recorded() -> None:
    assert branches("{% if a and b %}{% elif c %}{% endif %}", a=0, c=[1]) == [
        ("a", False, None),
        ("a and b", False, None),
        ("c", True, None),
    ]


def test_inline_ifs_and_loop_filters_are_conditions() -> None:
    assert branches("{% set x = 1 if a %}{{ 2 if b else 3 }}", b=True) == [
        ("a", False, None),
        ("b", True, None),
    ]
    source = "{% for m in messages if m.role == 'user' %}{% if loop.last %}{% endif %}x{% endfor %}"
    # The loop looks one item ahead to know whether it is the last.
    assert branches(source, TALK) == [
        ("m.role == 'user'", True, 0),
        ("m.role == 'user'", False, 1),
        ("m.role == 'user'", True, 2),
        ("loop.last", False, 0),
        ("loop.last", True, 2),
    ]


def test_a_branch_tells_whether_it_is_the_whole_condition() -> None:
    traced = trace("{% if a and b %}{% endif %}{% if c %}{% endif %}", RenderRequest([]), {})
    assert [(branch.atom, branch.whole) for branch in traced.branches] == [
        (True, False),
        (False, True),
        (True, True),
    ]


def test_conditions_of_loops_that_print_nothing_are_silent() -> None:
    source = (
        "{% set ns = namespace(n=0) %}"
        "{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = loop.index0 %}{% endif %}"
        "{% endfor %}{% for m in messages %}{% if loop.index0 > ns.n %}x{% endif %}{% endfor %}"
    )
    traced = trace(source, RenderRequest(TALK), {})
    assert [branch.silent for branch in traced.branches] == [True] * 3 + [False] * 3


def test_the_cost_of_a_rendering_is_counted() -> None:
    source = "{% for m in messages %}{{ m.role + ': ' }}{{ m.content }}\n{% endfor %}end"
    traced = trace(source, RenderRequest(TALK), {})
    assert (traced.outputs, traced.loop_bodies) == (3 * 3 + 1, 3)


@pytest.mark.parametrize(
    "use",
    [
        "s is string, s == 'a-b', s in ['a-b'], s is sameas s, {s: 1}['a-b']",
        "s.split('-'), s[1:], s | tojson, [s], '%s' | format(s), s.format(), s ~ 1, s * 2",
        "s.marks is defined, s._marks is defined, s['of'] is defined",
    ],
)
def test_a_string_from_a_macro_is_to_a_template_like_any_other(use: str) -> None:
    source = "{% macro m() %}a-b{% endmacro %}{% set s = m() %}{{ (" + use + ") }}"
    untraced = JinjaRenderer(source).render(RenderRequest([]))
    assert trace(source, RenderRequest([]), {}).text == untraced
