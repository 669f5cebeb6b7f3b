"""A fold only ever appends, and leaves to the original all that it need not touch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pytest

from templatefix.chat.battery import TOOLS
from templatefix.chat.server import Server
from templatefix.checking import CheckOptions, prepare
from templatefix.checking.runs import modes_of
from templatefix.patching.bench import Bench
from templatefix.patching.ladder.fold import candidates
from templatefix.patching.ladder.fold_text import Shape, folded
from templatefix.patching.long_chat import MANY, long_chat, render_cost, steps, steps_a_turn
from templatefix.render import Crashed, JinjaRenderer, Refused, RenderRequest
from templatefix.render.trace import Trace, trace
from templatefix.replay.run import Plan, replay
from templatefix.source import ChatTemplate
from templatefix.syntax import literals, parse
from tests.corpus import Entry, corpus_entries
from tests.example import EXAMPLE
from tests.subjects import APPENDS, STOP, branches, results, template

POLICIES = ("lossless", "keep-reasoning")
ORIGINAL = (EXAMPLE / "chat_template.jinja").read_text("utf-8")

#: Never prints reasoning, though its generation prompt opens a block for it.
STRIPS = branches(
    "{%- set text = message.content.split('</think>')[-1] | trim %}"
    "{{- '<|im_start|>assistant\\n' + text + '<|im_end|>\\n' }}",
    "{{- '<think>\\n' }}",
)
#: Prints an empty block before a last answer only, and refuses a role that it does not know.
STRICT = (
    "{%- for message in messages %}\n"
    "{%- if message.role not in ['system', 'user', 'assistant'] %}\n"
    "{{- raise_exception('who is ' + message.role + '?') }}\n"
    "{%- endif %}\n"
    "{{- '<|im_start|>' + message.role + '\\n' }}\n"
    "{%- if message.role == 'assistant' and loop.last %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{% endif %}\n"
    "{{- message.content + '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}{% endif %}"
)
#: Prints a last answer with another end than one in history, and the clock's names for things.
ENDS = (
    "{%- set fold_at = 'a name of its own' %}\n"
    "{%- for message in messages %}\n"
    "{%- generation %}{{- '<|im_start|>' + message.role + '\\n' }}{% endgeneration %}\n"
    "{%- if message.role == 'assistant' and not loop.last %}\n"
    "{{- message.content | trim + '<|im_end|>\\n' }}\n"
    "{%- else %}\n"
    "{{- message.content + ('<|im_end|>' if message.role == 'assistant' else '<|im_end|>\\n') }}\n"
    "{%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"
)
#: Prints the content of an answer behind the results of its calls.
BEHIND = results("", "{{- message.content }}")
#: Prints reasoning with a last answer only, and content beside calls until they are answered.
UNTIL = branches(
    "{%- set later = namespace(said=false) %}"
    "{%- for other in messages[loop.index:] %}"
    "{%- if other.role == 'assistant' and not other.tool_calls %}"
    "{%- set later.said = true %}{% endif %}{% endfor %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if loop.last and message.reasoning_content %}"
    "{{- '<think>' + message.reasoning_content + '</think>' }}{% endif %}"
    "{%- if not (message.tool_calls and later.said) %}{{- message.content }}{% endif %}"
    "{%- for call in message.tool_calls or [] %}"
    '{{- \'<tool_call>{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- call.function.arguments | tojson + '}</tool_call>' }}{% endfor %}"
    "{{- '<|im_end|>\\n' }}"
)
OWN = {"strips": STRIPS, "strict": STRICT, "ends": ENDS, "behind": BEHIND, "example": ORIGINAL}


@lru_cache(maxsize=16)
def bench(name: str, policy: str) -> Bench:
    subject = prepare(template({**OWN, "until": UNTIL}[name]), CheckOptions())
    return Bench(subject, modes_of(subject, CheckOptions()), policy, 16)


@lru_cache(maxsize=16)
def fold(name: str, policy: str) -> str:
    return next(candidates(bench(name, policy))).text


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str, reasoning: str | None = None, **more: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text, **more}
    return said if reasoning is None else {**said, "reasoning": reasoning}


def prompt(server: Server, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
    return server.prompt(messages, None, kwargs)


def outcome(server: Server, messages: Sequence[Mapping[str, Any]], generation: bool) -> str:
    try:
        return server.prompt(messages, None, {}, generation_prompt=generation)
    except (Refused, Crashed) as fault:
        return f"{type(fault).__name__}: {fault}"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", OWN)
def test_preserves_every_stream_of_the_bench(name: str, policy: str) -> None:
    its = bench(name, policy)
    if policy == "keep-reasoning":
        assert its.original.failures, "nothing to repair"
    trial = its.trial(fold(name, policy))
    assert trial.fault is None
    assert trial.failures == ()
    assert trial.comparisons == its.original.comparisons


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", OWN)
def test_leaves_conversations_without_an_answer_alone(name: str, policy: str) -> None:
    its = bench(name, policy)
    folded_server = its.server(fold(name, policy))
    system = {"role": "system", "content": "Be brief."}
    for messages in ([user("Hello")], [system, user("Hello")], [user("One"), user("Two")]):
        for kwargs in its.modes.sweep:
            for tools in (None, TOOLS):
                for generation in (True, False):
                    shown = [
                        server.prompt(messages, tools, kwargs, generation_prompt=generation)
                        for server in (its.subject.server, folded_server)
                    ]
                    assert shown[0] == shown[1]


@pytest.mark.parametrize("generation", [True, False])
def test_refuses_what_the_original_refuses_in_its_words(generation: bool) -> None:
    its = bench("strict", "lossless")
    folded_server = its.server(fold("strict", "lossless"))
    stranger = {"role": "stranger", "content": "?"}
    for messages in (
        [stranger],
        [user("Hello"), stranger],
        [user("Hello"), answer("Hi."), stranger],
        [user("Hello"), stranger, answer("Hi."), user("And?")],
    ):
        told = outcome(its.subject.server, messages, generation)
        assert told == "Refused: who is stranger?"
        assert outcome(folded_server, messages, generation) == told


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", OWN)
def test_renders_what_the_original_renders(name: str, policy: str) -> None:
    its = bench(name, policy)
    folded_server = its.server(fold(name, policy))
    for messages in (
        [answer("First."), user("Why?")],
        [user("Hello"), answer("One."), answer("Two."), user("Why?")],
        [user("Hello"), answer("Hi.")],
        [user("Hello"), answer(""), user("Well?")],
        [user("Hello"), answer("  "), user("Well?")],
        [user("Hello"), answer("Hi."), {"role": "system", "content": "Sh."}, user("Well?")],
        [user("Hello"), answer("Hi."), user("One"), user("Two")],
    ):
        for generation in (True, False):
            shown = outcome(folded_server, messages, generation)
            assert not shown.startswith(("Refused", "Crashed"))
            assert "Zq9" not in shown
            assert all(message["content"].strip() in shown for message in messages)


@pytest.mark.parametrize("policy", POLICIES)
def test_loses_no_tool_call(policy: str) -> None:
    function = {"name": "get_forecast", "arguments": json.dumps({"place": "Porto"})}
    call = {"id": "call_1", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "It stays dry."}
    server = bench("example", policy).server(fold("example", policy))
    messages = [user("Rain?"), answer("", "Look.", tool_calls=[call]), result]
    for tail in ([], [answer("No rain.", "Dry."), user("Thanks.")]):
        shown = server.prompt([*messages, *tail], TOOLS, {})
        assert shown.count('{"name": "get_forecast", "arguments": {"place": "Porto"}}') == 1
        assert shown.count("It stays dry.") == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_content_stays_before_its_calls_and_their_results_are_kept(policy: str) -> None:
    server = bench("behind", policy).server(fold("behind", policy))
    call = {"name": "find_train", "arguments": '{"origin": "Porto"}'}
    said = answer("I look.", tool_calls=[{"id": "a1", "type": "function", "function": call}])
    found = {"role": "tool", "tool_call_id": "a1", "name": "find_train", "content": "at noon"}
    shown = prompt(server, [user("A train?"), said, found, answer("At noon."), user("Thanks")])
    places = [shown.index(text) for text in ("I look.", "<tool_call>", "at noon", "At noon.")]
    assert places == sorted(places)
    assert shown.count("I look.") == shown.count("at noon") == 1


def test_reasoning_after_results_is_printed_as_the_last_answer_has_it() -> None:
    its = bench("until", "keep-reasoning")
    server = its.server(fold("until", "keep-reasoning"))
    call = {"name": "find_train", "arguments": '{"origin": "Porto"}'}
    said = answer("I look.", tool_calls=[{"id": "a1", "type": "function", "function": call}])
    found = {"role": "tool", "tool_call_id": "a1", "name": "find_train", "content": "at noon"}
    asked = [user("A train?"), said, found, answer("At noon.", "One train."), user("Thanks")]
    shown = prompt(server, asked)
    assert "<|im_start|>assistant\n<think>One train.</think>At noon.<|im_end|>" in shown
    assert its.trial(fold("until", "keep-reasoning")).failures == ()


#: Thinks after the last question only, and prints no content beside calls.
LATELY = branches(
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if loop.index0 > at.user %}"
    "{{- '<think>' + (message.reasoning_content or '') + '</think>' }}{% endif %}"
    "{%- for call in message.tool_calls or [] %}"
    "{{- '<tool_call>' + call.function.name + ' ' + call.function.arguments | tojson }}"
    "{{- '</tool_call>' }}{%- else %}{{- message.content }}{%- endfor %}{{- '<|im_end|>\\n' }}",
    "{%- if quiet is defined and quiet %}{{- '<think></think>' }}{% endif %}",
    "{%- set at = namespace(user=-1) %}{%- for each in messages %}{%- if each.role == 'user' %}"
    "{%- set at.user = loop.index0 %}{% endif %}{%- endfor %}",
)


def test_a_result_is_kept_although_a_question_follows_it_at_once() -> None:
    subject = prepare(template(LATELY), CheckOptions())
    its = Bench(subject, modes_of(subject, CheckOptions()), "lossless", 16)
    server = its.server(next(candidates(its)).text)
    call = {"name": "find_train", "arguments": '{"origin": "Porto"}'}
    said = answer("", tool_calls=[{"id": "a1", "type": "function", "function": call}])
    found = {"role": "tool", "tool_call_id": "a1", "name": "find_train", "content": "at noon"}
    shown = server.prompt(
        [user("A train?"), said, found, user("Or a bus?")], TOOLS, {"quiet": True}
    )
    assert "</tool_call><|im_end|>\n<|im_start|>tool\nat noon<|im_end|>\n" in shown
    assert shown.count("at noon") == shown.count("Or a bus?") == 1


#: Prints the first call of an answer, with a stop token of its own.
FIRST = """\
{%- for message in messages %}
{%- if message.tool_calls %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start|>assistant<|channel|>commentary to=functions.' + call.name }}
{{- ' <|constrain|>json<|message|>' + call.arguments | tojson + '<|im_end|>' }}
{%- elif message.role == 'assistant' %}
{{- '<|start|>assistant<|channel|>final<|message|>' + message.content }}
{{- '<|return|>' if loop.last else '<|end|>' }}
{%- else %}
{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{% endif %}"""


def test_several_calls_end_as_one_does() -> None:
    asked = CheckOptions(tool_call_parser="openai", reasoning_parser="openai_gptoss")
    subject = prepare(template(FIRST, {"eos_token": "<|return|>"}), asked)
    its = Bench(subject, modes_of(subject, asked), "lossless", 16)
    assert its.original.failures
    server = its.server(next(candidates(its)).text)
    said = answer(
        "",
        tool_calls=[
            {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
            for name in ("find_train", "get_forecast")
        ],
    )
    found = [{"role": "tool", "tool_call_id": name, "content": "dry"} for name in ("a", "b")]
    shown = prompt(server, [user("Well?"), said, *found])
    assert "get_forecast <|constrain|>json<|message|>{}<|im_end|><|start|>tool" in shown


#: Has no place for reasoning, which models of this format open and label themselves.
LABELS = branches(
    "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}",
    "{%- if quiet %}{{- '<|channel>thought\\n<channel|>' }}{% endif %}",
)


def test_a_newline_that_reasoning_begins_with_is_kept_where_the_parser_takes_the_layouts_off() -> (
    None
):
    asked = CheckOptions(reasoning_parser="gemma4")
    subject = prepare(template(LABELS), asked)
    its = Bench(subject, modes_of(subject, asked), "keep-reasoning", 16)
    server = its.server(next(candidates(its)).text)
    shown = prompt(server, [user("Hello"), answer("Hi.", "\nA greeting."), user("And now?")])
    assert "<|channel>thought\n\nA greeting.\n<channel|>Hi.<|im_end|>" in shown


def test_a_closing_tag_is_in_no_literal_where_the_original_builds_it() -> None:
    tag = "<|close|>think<|sep|>"
    built = APPENDS + "{%- macro close(tag) %}{{- '<|close|>' + tag + '<|sep|>' }}{% endmacro %}"
    for original, has in ((built, False), (built + f"{{# {tag} #}}", True)):
        text = folded(original, Shape(mute=True, close=tag, silent=f"'{tag}' in fold_prompt"))
        assert any(tag in each for each in literals(parse(text))) is has


def test_keeps_the_text_that_was_generated_from_raw_and_from_stripped_fields() -> None:
    server = bench("example", "keep-reasoning").server(fold("example", "keep-reasoning"))

    def past(text: str, reasoning: str) -> str:
        shown = prompt(server, [user("Hello"), answer(text, reasoning), user("And?")])
        return shown.partition("<|im_start|>assistant\n")[2].partition("<|im_end|>")[0]

    canonical = "<think>\nSo.\n</think>\n\nHi."
    assert past("Hi.", "So.") == canonical
    assert past("\n\nHi.", "\nSo.\n") == canonical
    assert past("\nHi.", "\nSo.\n") == "<think>\nSo.\n</think>\nHi."
    assert past("\n\n\nHi.", "\n\nSo.\n") == "<think>\n\nSo.\n</think>\n\n\nHi."
    assert past("\n\n  Hi.", "\n  So.\n\n") == "<think>\n  So.\n\n</think>\n\n  Hi."


def test_writes_reasoning_that_the_original_never_prints() -> None:
    server = bench("strips", "keep-reasoning").server(fold("strips", "keep-reasoning"))
    shown = prompt(server, [user("Hello"), answer("Hi.", "So."), user("And?")])
    assert "<|im_start|>assistant\n<think>\nSo.\n</think>\n\nHi.<|im_end|>" in shown


def test_drops_under_lossless_the_reasoning_that_the_original_drops() -> None:
    its = bench("example", "lossless")
    server = its.server(fold("example", "lossless"))
    messages = [user("Hello"), answer("Hi.", "So."), user("And?")]
    assert prompt(server, messages) == prompt(its.subject.server, messages)
    assert "So." in server.prompt(messages[:2], None, {}, generation_prompt=False)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["strips", "example"])
def test_shows_a_client_that_drops_reasoning_what_it_saw_before(name: str, policy: str) -> None:
    its = bench(name, policy)
    server = its.server(fold(name, policy))
    compared = 0
    for run in its.original.runs:
        if not any(request.answer and request.answer.reasoning for request in run.requests):
            continue
        plan = Plan(run.plan.scenario, run.plan.kwargs, "reasoning-dropping", run.plan.replay)
        before = replay(plan, its.subject.author, its.subject.encoder, 16)
        after = replay(plan, its.subject.author, its.subject.encoder, 16, server)
        for was, now in zip(before.requests, after.requests, strict=True):
            assert now.prompt == was.prompt
            compared += 1
    assert compared > 10


def test_reasoning_stays_where_it_was_generated_when_thinking_is_switched_off() -> None:
    its = bench("example", "keep-reasoning")
    server = its.server(fold("example", "keep-reasoning"))
    messages = [user("Hello"), answer("Hi.", "So."), user("And?")]
    stream = prompt(server, messages[:1]) + "<think>\nSo.\n</think>\n\nHi.<|im_end|>"
    shown = prompt(server, messages, enable_thinking=False)
    assert shown.startswith(stream)
    assert shown.endswith(prompt(its.subject.server, messages, enable_thinking=False)[-40:])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", OWN)
def test_costs_the_same_for_every_turn(name: str, policy: str) -> None:
    text = fold(name, policy)

    def cost(turns: int) -> int:
        messages = [
            message
            for i in range(turns)
            for message in (user(f"Question {i}"), answer(f"Answer {i}.", f"Thought {i}."))
        ]
        request = bench(name, policy).subject.server.request([*messages, user("Last")], None, {})
        made = _traced(text, request)
        return made.outputs + made.loop_bodies

    assert cost(100) <= 2.1 * cost(50)


#: A question can ask for an address, which the generation prompt then brings.
ADDRESSES = branches(
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if loop.last and messages[loop.index0 - 1].content.endswith('/formal') %}"
    "{{- 'Madam, ' }}{% endif %}"
    "{{- message.content + '<|im_end|>\\n' }}",
    "{%- if messages[-1].content.endswith('/formal') %}{{- 'Madam, ' }}{% endif %}",
)


def test_answers_to_questions_of_another_kind_are_not_mistaken_for_one_another() -> None:
    subject = prepare(template(ADDRESSES), CheckOptions())
    its = Bench(subject, modes_of(subject, CheckOptions()), "keep-reasoning", 16)
    server = its.server(next(candidates(its)).text)
    messages: list[dict[str, Any]] = []
    stream = ""
    for number, formal in enumerate([False, False, True, True, False, True]):
        messages.append(user(f"Question {number}{' /formal' if formal else ''}"))
        shown = prompt(server, messages)
        assert shown.startswith(stream)
        assert shown.endswith(prompt(subject.server, messages[-1:]))
        messages.append(answer(f"Answer {number}."))
        stream = f"{shown}Answer {number}.<|im_end|>"
    assert "Madam, Answer 2." in stream
    assert "Madam, Answer 4." not in stream
    assert prompt(server, [*messages, user("Last")]).startswith(stream)


def test_the_original_is_asked_once_for_each_turn_of_a_chat() -> None:
    """What a fold costs beyond that is its own: the same for every template."""
    its = bench("strips", "keep-reasoning")
    text = fold("strips", "keep-reasoning")
    messages = long_chat(MANY, None)
    folded_steps = steps(text, its, messages, None, {})
    once = steps(STRIPS, its, [user("Go on."), answer("Prior."), user("Next")], None, {})
    assert folded_steps is not None
    assert once is not None
    assert folded_steps <= MANY * (once + 10)


@pytest.mark.parametrize("policy", POLICIES)
def test_says_in_its_header_what_a_turn_costs(policy: str) -> None:
    its = bench("strips", policy)
    if policy == "lossless":
        its = bench("strict", policy)
    candidate = next(candidates(its))
    now, was = steps_a_turn(candidate.text, its) or (0, 0)
    assert now > was > 0
    assert any(f"Costs {now} executed outputs" in note for note in candidate.notes)
    assert any(f"the template alone costs {was}," in note for note in candidate.notes)


def test_its_cost_is_measured_beside_the_originals() -> None:
    its = bench("strips", "keep-reasoning")
    cost = render_cost(fold("strips", "keep-reasoning"), its)
    assert cost is not None
    assert (cost.turns, cost.steps, cost.steps_before) == (
        MANY,
        *(steps_a_turn(fold("strips", "keep-reasoning"), its) or ()),
    )
    assert cost.milliseconds > 0
    assert cost.ratio > 1


def _traced(text: str, request: RenderRequest) -> Trace:
    return trace(text, request, STOP)


def test_a_template_is_wrapped_without_a_change_in_what_it_prints() -> None:
    messages = [user("Hello")]
    request = bench("strict", "lossless").subject.server.request(messages, None, {})
    for text in (
        "\nfirst line\n",
        "  {% if true %}\nindented\n  {% endif %}\n\n",
        "  {{- messages[0].content -}}  \n\n",
        "{#- note #}\n\ttail  ",
        "a\r\nb\r\n",
        "{% set messages = messages[1:] %}{% set add_generation_prompt = 1 %}{{ messages }}\n",
        "{% macro twice(x) %}{{ x ~ sep }}{% endmacro %}{% set sep = '!' %}{{ twice('a') }}",
        "{{ messages is defined }}{{ fold_prompt is defined }}{{ refold_at is defined }}",
        *HEADS,
    ):
        assert JinjaRenderer(folded(text, Shape())).render(request) == JinjaRenderer(text).render(
            request
        )


#: Templates that begin with what comes out alike for every piece, by that beginning.
HEADS = {
    "{#- names -#}\n{%- set mark = '<{}>'.format('s') %}\n"
    "{{- mark + messages[0].content }}\n": "{#- names -#}\n{%- set mark = '<{}>'.format('s') %}\n",
    "{% set a = 'x' %}{% macro said(m) %}{{ a ~ m.content ~ odd }}{% endmacro %}\n"
    "{% if tools %}t{% endif %}{{ said(messages[0]) }}": "{% set a = 'x' %}"
    "{% macro said(m) %}{{ a ~ m.content ~ odd }}{% endmacro %}\n",
    # Whitespace is printed before what follows.
    "{%- set mark = 'x' %}\n\n{{ mark }}": "",
    # Something printed stands first.
    "first {%- set mark = 'x' %}{{ mark }}": "",
    # What is given, what changes, and what is set again, belong to each piece.
    "{%- set ns = namespace(n=0) %}{%- set ns.n = ns.n + 1 %}{{- ns.n }}": "",
    "{%- set first = messages[0] %}{{- first.content }}": "",
    "{%- macro all() %}{{ messages | length }}{% endmacro %}{{- all() }}": "",
    "{%- macro last() %}{{ of }}{% endmacro %}{%- set of = messages[-1].role %}{{- last() }}": "",
    "{%- set mark = 'x' %}{%- if tools %}{%- set mark = 'y' %}{%- endif %}{{- mark }}": "",
    "{%- set tools = 'none' %}{{- tools }}": "",
    "{%- set one = [1, 2, 3] | random %}{{- one in [1, 2, 3] }}": "",
}


@pytest.mark.parametrize("text", HEADS)
def test_what_is_alike_for_every_piece_is_worked_out_once(text: str) -> None:
    written = folded(text, Shape())
    assert written[: written.index("{#- The rest" if HEADS[text] else "{#- All")] == HEADS[text]
    chat = [user("Hello"), {"role": "assistant", "content": "Hi"}, user("And?")]
    request = bench("strict", "lossless").subject.server.request(chat, None, {})
    assert JinjaRenderer(written).render(request)


#: What keeps a fold of a template of the corpus from preserving every stream.
KNOWN = {
    "NousResearch/Hermes-4-14B": "where it thinks it crashes on content without a closing tag, "
    "and the marks that a fold renders have none",
}


@pytest.mark.corpus
@pytest.mark.parametrize("entry", list(corpus_entries()), ids=lambda entry: entry.model_id)
def test_preserves_the_streams_of_real_templates(entry: Entry) -> None:
    its = _of_corpus(entry)
    if not its.original.failures:
        pytest.skip("nothing breaks")
    trial = its.trial(next(candidates(its)).text)
    left = [failure for failure in trial.failures if failure.code != "TF108"]
    holds = trial.fault is None and not left
    assert holds != (entry.model_id in KNOWN), trial.fault


def _of_corpus(entry: Entry) -> Bench:
    found = ChatTemplate(entry.model_id, "t.jinja", entry.text, special_tokens={}, tokenizer=None)
    subject = prepare(found, CheckOptions())
    return Bench(subject, modes_of(subject, CheckOptions()), "keep-reasoning", 16)
