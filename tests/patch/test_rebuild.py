"""Past answers get a branch of their own where outputs cannot be mended one by one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
from jinja2 import nodes

from templatefix.chat.battery import TOOLS
from templatefix.checking import CheckOptions, prepare
from templatefix.checking.runs import modes_of
from templatefix.patching.bench import Bench
from templatefix.patching.contract import verify
from templatefix.patching.ladder.rebuild import candidates
from templatefix.patching.ladder.rebuild_place import Unbuildable, seats
from templatefix.patching.ladder.rebuild_tree import Choice, Undecided, condition, decide
from templatefix.patching.repair import Patched, PatchOptions, repair
from templatefix.render import Refused, RenderRequest
from templatefix.syntax import parse
from tests.subjects import PROMPT, branches, template

_CALLS = (
    "{%- for call in message.tool_calls %}"
    "{%- if not loop.first %}{{- '\\n' }}{% endif %}"
    '{{- \'<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- call.function.arguments | tojson + '}\\n</tool_call>' }}"
    "{%- endfor %}"
)
#: Prints no content beside calls, and keeps count of the answers.
DROPS_WORDS = (
    "{%- set seen = namespace(answers=0) %}\n"
    "{%- if tools %}{{- '<|im_start|>tools\\n' + tools | tojson + '<|im_end|>\\n' }}{% endif %}\n"
    "{%- for message in messages %}\n"
    "    {%- if message.role == 'assistant' %}\n"
    "        {%- set seen.answers = seen.answers + 1 %}\n"
    "        {%- if message.tool_calls %}\n"
    "            {%- if message.tool_calls | length > 7 %}\n"
    "                {{- raise_exception('too many calls') }}\n"
    "            {%- endif %}\n"
    "            {{- '<|im_start|>assistant\\n' }}\n"
    "            " + _CALLS + "\n"
    "        {%- else %}\n"
    "            {{- '<|im_start|>assistant\\n' + message.content }}\n"
    "        {%- endif %}\n"
    "        {{- '<|im_end|>\\n' }}\n"
    "    {%- else %}\n"
    "        {{- '<|im_start|>' + message.role + ' ' + seen.answers | string + '\\n' }}\n"
    "        {{- message.content + '<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n" + PROMPT
)
#: The same with a mode: no reasoning is ever printed, and a block of another kind opens.
DROPS_ALL = DROPS_WORDS.replace(
    PROMPT,
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and not enable_thinking %}\n"
    "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "    {%- else %}\n"
    "        {{- '<think>\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endif %}",
)
#: Ends tool results after the messages, and again before the answer to them, if without calls.
ENDS_LATE = (
    "{%- set at = namespace(tool=false) %}\n"
    "{%- for message in messages %}\n"
    "{%- if message.role == 'assistant' %}\n"
    "{%- if message.tool_calls %}{{- '<|im_start|>assistant\\n' }}" + _CALLS + "\n"
    "{%- elif at.tool %}{{- '</results><|im_start|>assistant\\n' + message.content }}\n"
    "{%- else %}{{- '<|im_start|>assistant\\n' + message.content }}{% endif %}\n"
    "{%- set at.tool = false %}\n"
    "{{- '<|im_end|>\\n' }}\n"
    "{%- elif message.role == 'tool' %}\n"
    "{{- ('' if at.tool else '<results>') + message.content }}\n"
    "{%- set at.tool = true %}\n"
    "{%- else %}\n"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
    "{%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if at.tool %}{{- '</results>' }}{% endif %}" + PROMPT
)
OWN = {"drops-words": DROPS_WORDS, "drops-all": DROPS_ALL, "ends-late": ENDS_LATE}
POLICIES = ("lossless", "keep-reasoning")


@lru_cache(maxsize=16)
def bench(text: str, policy: str = "keep-reasoning") -> Bench:
    subject = prepare(template(text), CheckOptions())
    return Bench(subject, modes_of(subject, CheckOptions()), policy, 16)


@lru_cache(maxsize=16)
def rebuilt(text: str, policy: str = "keep-reasoning") -> str:
    return next(candidates(bench(text, policy))).text


@lru_cache(maxsize=16)
def patched(text: str) -> Patched:
    return repair(template(text), PatchOptions(policy="keep-reasoning", max_examples=10))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", OWN)
def test_keeps_the_contract(name: str, policy: str) -> None:
    its = bench(OWN[name], policy)
    assert its.original.failures, "nothing to repair"
    proof = verify(its, rebuilt(OWN[name], policy), max_examples=5, seed=1)
    assert proof.passed, proof.violations


def test_is_reached_where_edits_do_not_suffice() -> None:
    found = patched(DROPS_WORDS)
    assert found.status == "patched"
    assert found.candidate is not None
    assert found.proof is not None
    assert found.candidate.rung == 4
    assert found.proof.passed
    assert {result.clause for result in found.proof.results} >= {"C1", "C2", "C3", "C4", "C6", "C7"}


@pytest.mark.parametrize("name", OWN)
def test_renders_fields_with_and_without_a_parsers_leftovers_alike(name: str) -> None:
    text = rebuilt(OWN[name])
    server = bench(OWN[name]).server(text)
    case = bench(OWN[name]).trial(text)
    for run in case.runs:
        if run.plan.replay != "raw" or run.plan.scenario.name != "plain-chat":
            continue
        raw = run.requests[-1]
        stripped = [
            {k: v.strip() if isinstance(v, str) else v for k, v in message.items()}
            if message["role"] == "assistant"
            else message
            for message in raw.messages
        ]
        assert server.prompt(stripped, run.tools, raw.kwargs) == raw.prompt


def test_the_bookkeeping_of_the_branch_stays() -> None:
    messages = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "user", "content": "Three"},
    ]
    renderer = bench(DROPS_WORDS).server(rebuilt(DROPS_WORDS)).renderer
    shown = renderer.render(RenderRequest(messages, None, True, {}))
    assert "<|im_start|>user 0\nOne" in shown
    assert "<|im_start|>user 1\nThree" in shown


def test_refusals_of_the_branch_stay() -> None:
    found = patched(DROPS_WORDS)
    assert found.text is not None
    call: dict[str, Any] = {"type": "function", "function": {"name": "find", "arguments": {}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Find it"},
        {"role": "assistant", "content": "", "tool_calls": [call] * 8},
    ]
    renderer = bench(DROPS_WORDS).server(rebuilt(DROPS_WORDS)).renderer
    with pytest.raises(Refused, match="too many calls"):
        renderer.render(RenderRequest(messages, None, False, {}))


def test_the_branch_reads_as_a_template_does() -> None:
    found = patched(DROPS_WORDS)
    assert found.text is not None
    head, _, branch = found.text.partition("{#- A past answer, as the model wrote it. #}")
    assert "rung 4" in head
    assert "the branch for answers was rebuilt" in head
    lines = branch.partition("{%- elif" if "{%- elif" in branch else "{%- else")[0].splitlines()
    assert all(len(line) - len(line.lstrip()) >= 8 for line in lines if line.strip())
    assert "Zq" not in found.text


def test_calls_that_are_never_printed_are_spelled_as_the_parser_reads_them() -> None:
    text = (
        '{%- if tools %}{{- \'<|im_start|>tools\\nAnswer as <tool_call>\\n{"name": ..., '
        "\"arguments\": ...}\\n</tool_call>.' + tools | tojson + '<|im_end|>\\n' }}{% endif %}\n"
    ) + branches(
        "{%- if message.tool_calls and message.content is none %}"
        + _CALLS
        + "{%- else %}{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}"
        "{%- endif %}"
    )
    found = rebuilt(text)
    assert verify(bench(text), found, max_examples=0, seed=1).passed
    server = bench(text).server(found)
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"a": "ü"}'}}
    shown = server.prompt(
        [
            {"role": "user", "content": "Find it"},
            {"role": "assistant", "content": "At once.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "here"},
        ],
        TOOLS,
        {},
    )
    assert 'At once.<tool_call>\n{"name": "find", "arguments": {"a": "ü"}}\n</tool_call>' in shown


def test_a_decision_takes_as_few_tests_as_will_do() -> None:
    cases = [
        ({"a": a, "b": b, "c": c}, "x" if b else "y")
        for a in (True, False)
        for b in (True, False)
        for c in (True, False)
    ]
    assert decide(cases, ["a", "b", "c"]) == Choice("b", "x", "y")
    assert decide([({"a": True}, "x"), ({"a": True}, "x")], ["a"]) == "x"
    with pytest.raises(Undecided):
        decide([({"a": True}, "x"), ({"a": True}, "y")], ["a"])


def test_a_decision_as_a_condition() -> None:
    assert condition(Choice("a", "true", "false")) == "a"
    assert condition(Choice("a", "false", "true")) == "not a"
    assert condition(Choice("a", "true", Choice("b", "true", "false"))) == "(a or b)"
    assert condition(Choice("a", Choice("b", "false", "true"), "false")) == "(a and not b)"


#: Two loops print answers: those of the past, and the last one.
TWO_LOOPS = (
    "{%- for message in messages[:-1] %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content | trim + '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- for message in messages[-1:] %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{%- endfor %}"
) + PROMPT


def test_what_stands_in_the_way_of_a_branch_is_said() -> None:
    why = "answers are not printed by one loop over the messages"
    with pytest.raises(Unbuildable, match=why):
        next(candidates(bench(TWO_LOOPS)))


def test_a_macro_that_calls_itself_is_followed_to_where_it_is_called_first() -> None:
    text = (
        "{%- macro shown(value) -%}"
        "{%- if value is mapping -%}{{- shown(value.inner) -}}"
        "{%- else -%}{{- value -}}{%- endif -%}"
        "{%- endmacro -%}"
        "{%- for message in messages %}{{- shown(message.content) }}{% endfor %}"
    )
    parsed = parse(text)
    (printed,) = (
        place.node
        for place in parsed.places
        if isinstance(place.parent, nodes.Output) and parsed.source(place.node) == "value"
    )
    assert [parsed.source(seat) for seat in seats(parsed, printed)] == ["shown(message.content)"]


def test_what_no_test_tells_apart_is_found_among_many_modes() -> None:
    tests = [f"mode == {number}" for number in range(10)]
    cases = [
        ({test: test == mode for test in tests}, text) for mode in tests for text in ("a", "b")
    ]
    with pytest.raises(Undecided):
        decide(cases, tests)
    alone = [(outcomes, text) for outcomes, text in cases if text == "a" or outcomes[tests[3]]]
    with pytest.raises(Undecided):
        decide(alone, tests)
    told = [(outcomes, "b" if outcomes[tests[3]] else "a") for outcomes, _ in cases]
    assert decide(told, tests) == Choice(tests[3], "b", "a")


#: Ends answers with a text that is no special token.
MARKED = """\
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '[A]' + message.content | replace('\\n', ' ') + '[/A]' }}
{%- else %}
{{- '[U]' + message.content + '[/U]' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '[A]' }}{% endif %}
"""


@pytest.mark.parametrize("policy", POLICIES)
def test_what_ends_an_answer_is_printed_once(policy: str) -> None:
    text = rebuilt(MARKED, policy)
    messages = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two\nlines"},
        {"role": "user", "content": "Three"},
    ]
    shown = bench(text, policy).subject.server.prompt(messages, None, {})
    assert shown == "[U]One[/U][A]Two\nlines[/A][U]Three[/U][A]"
