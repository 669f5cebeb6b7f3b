"""What the rules about the tree find, and what they leave alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from templatefix.checking import CheckOptions, check
from templatefix.findings.finding import Finding, at_least
from templatefix.findings.outcome import Report
from templatefix.rules import RULES
from templatefix.source import ChatTemplate
from templatefix.suppress import NAMES
from tests.corpus import corpus_directory, corpus_entry

STATIC = tuple(code for code in RULES if code.startswith("TF4"))


def checked(text: str, kwargs: Mapping[str, Any] | None = None) -> Report:
    tokens = {"eos_token": "<|im_end|>", "bos_token": "<s>"}
    return check(
        ChatTemplate("static", "static.jinja", text, special_tokens=tokens),
        CheckOptions(kwargs=kwargs),
    )


def found(text: str, code: str, kwargs: Mapping[str, Any] | None = None) -> list[Finding]:
    return [finding for finding in checked(text, kwargs).findings if finding.code == code]


def chat(extra: str = "", head: str = "", tail: str = "") -> str:
    """A template that preserves every answer, with something added to each message."""
    return (
        head
        + "{%- for message in messages %}\n"
        + "{{- '<|im_start|>' + message.role + '\\n' + message.content }}\n"
        + extra
        + "{{- '<|im_end|>\\n' }}\n{%- endfor %}\n"
        + "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"
        + tail
    )


# Roles that the conversations of a check do not have: only the tree can tell.
RARE = "message.role == 'critic'"


@pytest.mark.parametrize(
    "condition",
    [
        "loop.last",
        "loop.revindex == 1",
        "loop.index == loop.length",
        "loop.index0 == messages | length - 1",
        "message == messages[-1]",
        "message == (messages | last)",
        "message == messages[1:][-1]",
        "loop.nextitem is not defined",
        "not loop.last and loop.nextitem.role == 'user'",
    ],
)
def test_text_that_depends_on_the_end_of_the_conversation(condition: str) -> None:
    condition = f"{condition} and {RARE}"
    (finding,) = found(chat("{%- if " + condition + " %}{{- '!' }}{% endif %}\n"), "TF401")
    place = finding.locations[0]
    assert place.snippet == condition
    assert (place.line, place.column) == (3, 8)
    assert (place.end_line, place.end_column) == (3, 8 + len(condition))
    # Every conversation that was tried came out clean.
    assert finding.severity == "info"
    assert f"`{condition}" in finding.message or condition[:50] in finding.message


def test_a_scan_for_the_last_user_message_is_named_where_it_decides() -> None:
    scan = (
        "{%- set ns = namespace(last=0) %}{%- for m in messages %}"
        "{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}\n"
    )
    decides = f"loop.index0 > ns.last and {RARE}"
    text = chat("{%- if " + decides + " %}{{- '!' }}{% endif %}\n", head=scan)
    (finding,) = found(text, "TF401")
    assert finding.locations[0].snippet == decides


def test_one_cause_at_several_places_is_one_finding() -> None:
    text = chat("{%- if loop.last and " + RARE + " %}{{- '!' }}{% endif %}\n")
    twice = text.replace(
        "{{- '<|im_end|>", "{%- if loop.last and " + RARE + " %}?{% endif %}{{- '<|im_end|>"
    )
    (finding,) = found(twice, "TF401")
    assert len(finding.locations) == 2


@pytest.mark.parametrize(
    "extra",
    [
        # They close a group of tool results, for the newest message as for every other.
        "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '!' }}{% endif %}",
        "{%- if not loop.last and loop.nextitem.role != 'tool' %}!{% elif loop.last %}!{% endif %}",
        "{{- '' if loop.last or loop.nextitem.role != 'tool' else ',' }}",
        "{%- set more = loop.index < messages | length and messages[loop.index].role == 'tool' %}"
        "{%- if not more %}{{- '!' }}{% endif %}",
    ],
)
def test_the_end_of_a_group_of_tool_results_is_harmless(extra: str) -> None:
    text = chat("{%- if message.role == 'tool' %}" + extra + "{% endif %}\n")
    assert not found(text, "TF401")


@pytest.mark.parametrize(
    "extra",
    [
        "{%- if loop.last and add_generation_prompt %}{% endif %}",
        "{%- if messages | length > 0 %}{{- '!' }}{% endif %}",
        "{%- if messages[-1].role == 'assistant' %}{{- '!' }}{% endif %}",
        "{%- if loop.last and message.role == 'critic' %}{{- raise_exception('no') }}{% endif %}",
        "{%- if loop.first or messages[loop.index0 - 1].role == 'x' %}{{- '!' }}{% endif %}",
    ],
)
def test_what_never_shows_is_left_alone(extra: str) -> None:
    assert not found(chat(extra + "\n"), "TF401")


def test_an_answer_that_passes_a_filter() -> None:
    text = chat().replace("message.content }}", "message.content | replace('…', '...') }}")
    (finding,) = found(text, "TF402")
    assert finding.severity == "info"
    assert finding.detail == "content"
    assert finding.locations[0].snippet == "message.content | replace('…', '...')"


def test_a_filter_is_followed_through_variables_and_named_once() -> None:
    text = chat(
        "{%- set thought = message.reasoning_content or '' %}"
        "{%- set thought = thought.split('~~')[0].lower() %}{{- thought }}\n"
    )
    (finding,) = found(text, "TF402")
    assert finding.detail == "reasoning"
    assert [place.snippet for place in finding.locations] == ["thought.split('~~')[0].lower()"]


@pytest.mark.parametrize(
    "extra",
    [
        "{%- if message.role == 'user' %}{{- message.content | upper }}{% endif %}",
        "{%- if message.content | trim %}{{- '!' }}{% endif %}",
        "{%- if (message.content | trim) == 'x' %}{{- '!' }}{% endif %}",
        "{{- messages[0].content | upper }}",
    ],
)
def test_a_filter_that_no_answer_is_printed_through_is_left_alone(extra: str) -> None:
    assert not found(chat(extra + "\n"), "TF402")


@pytest.mark.parametrize(
    ("spelled", "severity"), [("%H:%M", "warning"), ("%d %B %Y", "info"), ("%-d.%-m.%y", "info")]
)
def test_a_clock_that_a_greeting_does_not_show(spelled: str, severity: str) -> None:
    call = f"strftime_now('{spelled}')"
    text = chat(head="{%- if tools %}{{- " + call + " }}{% endif %}\n")
    (finding,) = found(text, "TF403")
    assert finding.severity == severity
    assert finding.locations[0].snippet == call


def test_a_clock_after_the_conversation_is_left_alone() -> None:
    assert not found(chat(tail="{%- if tools %}{{- strftime_now('%H') }}{% endif %}"), "TF403")


def test_kwargs_at_the_head_are_one_finding() -> None:
    head = "{%- if tone is defined %}{{- tone }}{% endif %}"
    head += "{%- if pace is defined %}{{- 'p' }}{% endif %}\n"
    (finding,) = found(chat(head=head), "TF404")
    assert finding.severity == "info"
    assert "`pace` and `tone`" in finding.message
    assert [place.snippet for place in finding.locations] == ["tone is defined", "pace is defined"]


def test_a_kwarg_that_decides_after_the_conversation_is_left_alone() -> None:
    tail = "{%- if tone is defined %}{{- '(' + tone + ')' }}{% endif %}"
    assert not found(chat(tail=tail), "TF404")


CALLS = "{%- for call in message.tool_calls or [] %}{%- set f = call.function %}"


@pytest.mark.parametrize(
    "use",
    [
        "{%- for k, v in f.arguments.items() %}{{- k }}{% endfor %}",
        "{%- for k, v in f['arguments'] | items %}{{- k }}{% endfor %}",
        "{%- set a = f.arguments %}{%- for k, v in a | dictsort %}{{- k }}{% endfor %}",
    ],
)
def test_arguments_that_are_taken_for_a_dict(use: str) -> None:
    (finding,) = found(chat(CALLS + use + "{%- endfor %}\n"), "TF405")
    assert finding.severity == "info"
    guarded = "{%- if f.arguments is mapping %}" + use + "{% endif %}"
    assert not found(chat(CALLS + guarded + "{%- endfor %}\n"), "TF405")


def test_a_crash_on_arguments_is_reported_once() -> None:
    report = checked(chat(CALLS + "{{- f.name + f.arguments }}{%- endfor %}\n"))
    codes = [finding.code for finding in report.findings]
    assert "TF203" in codes
    assert "TF405" not in codes


@pytest.mark.parametrize(
    ("use", "guarded"),
    [
        ("message.name + ':'", "(message.name or 'tool') + ':'"),
        ("message.name.upper()", "message.name.upper() if message.name"),
        ("message['name'] + ':'", "message['name'] + ':' if 'name' in message"),
        ("'a' + message.name", "'a' + (message.name | default(''))"),
    ],
)
def test_a_key_that_may_be_missing(use: str, guarded: str) -> None:
    tool = "{%- if message.role == 'tool' %}{{- @ }}{% endif %}\n"
    (finding,) = found(chat(tool.replace("@", use)), "TF406")
    assert finding.severity == "warning"
    assert finding.detail == "name"
    assert not found(chat(tool.replace("@", guarded)), "TF406")


def test_content_is_never_missing_and_attributes_print_as_nothing() -> None:
    extra = "{{- message.name }}{{- message.content.strip() }}{{- 'x' ~ message.name }}\n"
    assert not found(chat(extra), "TF406")


def test_a_kwarg_that_is_not_read_is_a_warning_of_its_own() -> None:
    text = chat(tail="{%- if enable_thinking is defined %}{% endif %}")
    (finding,) = found(text, "TF408", {"enable_thinkng": True})
    assert finding.severity == "warning"
    assert "`enable_thinkng`" in finding.message
    assert finding.fix is not None
    assert "`enable_thinking`" in finding.fix.text
    assert not found(text, "TF408", {"enable_thinking": True})


def test_the_kwargs_of_a_conversation_count_as_well() -> None:
    conversation = {
        "messages": [{"role": "user", "content": "Hi"}],
        "chat_template_kwargs": {"brevity": 3},
    }
    target = ChatTemplate("static", "static.jinja", chat())
    report = check(target, CheckOptions(conversation=conversation))
    (finding,) = (finding for finding in report.findings if finding.code == "TF408")
    assert finding.fix is None


@pytest.mark.parametrize("code", NAMES)
def test_the_rules_about_suppressions_are_called_as_they_are_reported(code: str) -> None:
    assert RULES[code].name == NAMES[code]


@pytest.mark.corpus
@pytest.mark.skipif(corpus_directory() is None, reason="no corpus of real templates here")
@pytest.mark.parametrize(
    "model",
    [
        "Qwen/Qwen2.5-7B-Instruct",
        "Qwen/Qwen3-4B-Instruct-2507",
        "microsoft/phi-4",
        "HuggingFaceH4/zephyr-7b-beta",
    ],
)
def test_a_clean_template_stays_clean(model: str) -> None:
    entry = corpus_entry(model)
    assert entry is not None
    findings = [each for each in checked(entry.text).findings if each.code in STATIC]
    assert not [each for each in findings if at_least(each.severity, "warning")]
    assert len(findings) <= 1
