"""Each class of fault that people report of chat templates, and its repaired twin.

The templates are our own and as small as the fault allows; the classes are those of public reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from templatefix.checking import CheckOptions, check
from templatefix.findings.finding import SEVERITIES, Finding
from templatefix.findings.outcome import Report
from templatefix.source import ChatTemplate, TokenizerRef
from tests.example import EXAMPLE

END = "{{- '<|im_end|>\\n' }}\n{%- endfor %}\n"
HEADER = "{%- for message in messages %}\n{{- '<|im_start|>' + message.role + '\\n' }}\n"
ASK = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}\n"
CONTENT = "{{- message.content }}\n"
THOUGHT = "{{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}\n"
#: vLLM's parser leaves the newlines after a thinking block to the content.
REST = "{{- message.content.lstrip('\\n') }}\n"
EMPTY = "{{- '<think>\\n\\n</think>\\n\\n' }}\n"


def loop(body: str, ask: str = ASK, head: str = "") -> str:
    return head + HEADER + body + END + ask


def calls(body: str) -> str:
    return loop(
        CONTENT + "{%- for call in message.tool_calls or [] %}\n" + body + "{%- endfor %}\n"
    )


def when(condition: str, body: str, otherwise: str = "") -> str:
    middle = "{%- else %}\n" + otherwise if otherwise else ""
    return "{%- if " + condition + " %}\n" + body + middle + "{%- endif %}\n"


PLAIN = loop(CONTENT)


@dataclass(frozen=True)
class Fault:
    """A template with a fault, its repaired twin, and the code that names the fault."""

    name: str
    code: str
    bad: str
    good: str
    kwargs: Mapping[str, Any] | None = None
    tokenizer: bool = False
    special_tokens: Mapping[str, str] = field(default_factory=lambda: {"eos_token": "<|im_end|>"})


NO_THINKING = "enable_thinking is defined and not enable_thinking"
ASK_WITHOUT_THINKING = (
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}\n"
    + when(NO_THINKING, EMPTY)
    + "{%- endif %}\n"
)
LAST_USER = """\
{%- set ns = namespace(last_user=-1) %}
{%- for message in messages %}
{%- if message.role == 'user' %}{% set ns.last_user = loop.index0 %}{% endif %}
{%- endfor %}
"""
TOOLS = "{{- '<tools>' + (tools | tojson) + '</tools>\\n' }}\n"
LAST = "message.role == 'user' and loop.index0 == ns.last_user and tools"

FAULTS = [
    Fault(
        "ET: the empty block of a mode that does not think is gone from history",
        "TF101",
        loop(when("message.reasoning_content", THOUGHT) + CONTENT, ASK_WITHOUT_THINKING),
        loop(
            when("message.role == 'assistant'", when("message.reasoning_content", THOUGHT, EMPTY))
            + CONTENT,
            ASK_WITHOUT_THINKING,
        ),
        kwargs={"enable_thinking": False},
    ),
    Fault(
        "ET: ... and so it is in front of a tool call",
        "TF101",
        calls("{{- '<call>' + call.function.name + '</call>' }}\n").replace(ASK, "")
        + "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}\n"
        + EMPTY
        + "{%- endif %}\n",
        calls("{{- '<call>' + call.function.name + '</call>' }}\n")
        .replace(ASK, "")
        .replace(CONTENT, when("message.role == 'assistant'", EMPTY) + CONTENT)
        + "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}\n"
        + EMPTY
        + "{%- endif %}\n",
    ),
    Fault(
        "RS: reasoning before the last user message is not printed",
        "TF102",
        loop(
            when("message.reasoning_content and loop.index0 > ns.last_user", THOUGHT) + CONTENT,
            head=LAST_USER,
        ),
        loop(when("message.reasoning_content", THOUGHT) + REST),
    ),
    Fault(
        "RS: reasoning is never printed at all",
        "TF102",
        loop(
            "{{- message.content.split('</think>')[-1] }}\n",
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
        ),
        loop(
            when("message.role == 'assistant'", THOUGHT) + REST,
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
        ),
    ),
    Fault(
        "GP: history does not print what the generation prompt ended in",
        "TF103",
        loop(
            CONTENT,
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n> ' }}{% endif %}",
        ),
        loop(
            when("message.role == 'assistant'", "{{- '> ' }}\n") + CONTENT,
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n> ' }}{% endif %}",
        ),
    ),
    Fault("WS: content is trimmed", "TF104", loop("{{- message.content | trim }}\n"), PLAIN),
    Fault(
        "TC: the arguments of a call are written closer once it is history",
        "TF106",
        calls(
            "{{- '<call>' + call.function.name }}\n"
            + when(
                "message == messages[-1]",
                "{{- call.function.arguments | tojson }}\n",
                "{{- call.function.arguments | tojson(separators=(',', ':')) }}\n",
            )
            + "{{- '</call>' }}\n"
        ),
        calls("{{- '<call>' + call.function.name + (call.function.arguments | tojson) }}\n"),
    ),
    Fault(
        "TM: the tools move with the last user message",
        "TF107",
        calls("{{- call.function.name }}\n").replace(
            HEADER, LAST_USER + HEADER + when(LAST, TOOLS)
        ),
        when("tools", TOOLS) + calls("{{- call.function.name }}\n"),
    ),
    Fault(
        "TM: a hint is printed with the last user message only",
        "TF111",
        loop(when("loop.last and message.role == 'user'", "{{- '(be brief) ' }}\n") + CONTENT),
        loop(when("message.role == 'user'", "{{- '(be brief) ' }}\n") + CONTENT),
    ),
    Fault(
        "ND: the time stands at the head",
        "TF109",
        loop(CONTENT, head="{{- '<|im_start|>system\\n' + strftime_now('%H:%M') + '<|im_end|>' }}"),
        loop(CONTENT, head="{{- '<|im_start|>system\\nnoon<|im_end|>' }}"),
    ),
    Fault(
        "ND: the time is printed with the tools, where a greeting does not show it",
        "TF403",
        when("tools", "{{- 'It is ' + strftime_now('%H:%M') }}\n")
        + calls("{{- call.function.name }}\n"),
        when("tools", "{{- 'It is noon.' }}\n") + calls("{{- call.function.name }}\n"),
    ),
    Fault(
        "EOS: only the newest answer ends in the token that stops the model",
        "TF105",
        loop(
            CONTENT
            + when("message.role == 'assistant' and loop.last", "{{- '<|endoftext|>' }}\n", "X")
        )
        .replace("X{", "{{- '<|im_end|>' }}\n{")
        .replace(END, "{{- '\\n' }}\n{%- endfor %}\n"),
        loop(CONTENT + when("message.role == 'assistant'", "{{- '<|endoftext|>' }}\n", "X"))
        .replace("X{", "{{- '<|im_end|>' }}\n{")
        .replace(END, "{{- '\\n' }}\n{%- endfor %}\n"),
        tokenizer=True,
        special_tokens={"eos_token": "<|endoftext|>"},
    ),
    Fault(
        "BOS: the template prints it twice",
        "TF201",
        "{{- bos_token }}\n" + when("messages", "{{- bos_token }}\n") + PLAIN,
        "{{- bos_token }}\n" + PLAIN,
        special_tokens={"bos_token": "<|bos|>", "eos_token": "<|im_end|>"},
    ),
    Fault(
        "RT: an answer is joined with the text around it",
        "TF108",
        "{%- for message in messages %}\n"
        "{{- message.role + ':\\n' + message.content + '\\n' }}\n"
        "{%- if message.role == 'assistant' %}{{- '\\n' }}{% endif %}\n"
        "{%- endfor %}\n{%- if add_generation_prompt %}{{- 'assistant:\\n' }}{% endif %}\n",
        "{%- for message in messages %}\n"
        "{{- '<|im_start|>' + message.role + '<|endoftext|>' + message.content + '<|im_end|>' }}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant<|endoftext|>' }}{% endif %}\n",
        tokenizer=True,
        special_tokens={"eos_token": "<|im_end|>"},
    ),
    Fault(
        "CR: arguments are concatenated as if they were text",
        "TF203",
        calls("{{- call.function.name + call.function.arguments }}\n"),
        calls("{{- call.function.name + (call.function.arguments | tojson) }}\n"),
    ),
    Fault(
        "CR: ... where no server that makes dicts of them comes by",
        "TF405",
        calls(when("message.content is none", "{{- 'x' + call.function.arguments }}\n")),
        calls(when("message.content is none", "{{- call.function.arguments | tojson }}\n")),
    ),
    Fault(
        "CR: arguments are taken for a dict",
        "TF405",
        calls(
            "{%- for key, value in call.function.arguments.items() %}{{- key }}={{- value }} "
            "{%- endfor %}\n"
        ),
        calls("{{- call.function.arguments | tojson }}\n"),
    ),
    Fault(
        "CR: a valid order of roles is refused",
        "TF206",
        loop(when("message.role == 'system'", "{{- raise_exception('no system') }}\n") + CONTENT),
        PLAIN,
    ),
    Fault(
        "CR: the name of a tool message is relied on",
        "TF406",
        loop(when("message.role == 'tool'", "{{- message.name + ': ' }}\n") + CONTENT),
        loop(when("message.role == 'tool'", "{{- message.name ~ ': ' }}\n") + CONTENT),
    ),
    Fault(
        "KW: a misspelt kwarg is dropped without a word",
        "TF408",
        loop(CONTENT, ASK_WITHOUT_THINKING),
        loop(
            when("message.role == 'assistant'", when(NO_THINKING, EMPTY)) + CONTENT,
            ASK_WITHOUT_THINKING.replace("enable_thinking", "enable_thinkin"),
        ).replace("enable_thinking", "enable_thinkin"),
        kwargs={"enable_thinkin": False},
    ),
    Fault(
        "KW: the template reads a field that no server fills",
        "TF102",
        loop(
            when("message.thoughts", THOUGHT.replace("reasoning_content", "thoughts")) + CONTENT,
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
        ),
        loop(
            when("message.role == 'assistant'", THOUGHT) + REST,
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
        ),
    ),
    Fault(
        "KW: an effort level is printed at the head",
        "TF404",
        loop(CONTENT, head=when("effort is defined", "{{- 'Effort: ' ~ effort }}\n")),
        PLAIN,
    ),
    Fault(
        "PO: other engines do not know the generation tag",
        "TF407",
        loop(
            when(
                "message.role == 'assistant'",
                "{% generation %}" + CONTENT + "{% endgeneration %}",
                "X",
            )
        ).replace("X{", CONTENT + "{"),
        PLAIN,
    ),
]


def report(template: str, fault: Fault) -> Report:
    tokenizer = (
        TokenizerRef("example", EXAMPLE, EXAMPLE / "tokenizer.json") if fault.tokenizer else None
    )
    target = ChatTemplate(
        "report", "report.jinja", template, special_tokens=fault.special_tokens, tokenizer=tokenizer
    )
    return check(target, CheckOptions(kwargs=fault.kwargs))


def named(found: Report, code: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.code == code]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.code} {fault.name}")
def test_the_fault_is_named(fault: Fault) -> None:
    assert named(report(fault.bad, fault), fault.code)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.code} {fault.name}")
def test_its_repaired_twin_is_free_of_it(fault: Fault) -> None:
    gravest = max(
        (finding.severity for finding in named(report(fault.bad, fault), fault.code)),
        key=SEVERITIES.index,
    )
    found = report(fault.good, fault)
    # Where the fault is grave, a trace of it in an unusual conversation is another matter.
    assert not [each for each in named(found, fault.code) if each.severity == gravest]
    assert found.verdict == "preserving"


def test_a_kwarg_that_keeps_reasoning_is_offered() -> None:
    keeps = "(preserve_thinking is defined and preserve_thinking) or loop.index0 > ns.last_user"
    template = loop(
        when(f"message.reasoning_content and ({keeps})", THOUGHT) + REST, head=LAST_USER
    )
    found = report(template, Fault("KW", "TF102", "", ""))
    fixes = [finding.fix.text for finding in named(found, "TF102") if finding.fix is not None]
    assert any("preserve_thinking" in fix for fix in fixes)


def test_the_nearest_name_of_a_misspelt_kwarg_is_offered() -> None:
    fault = next(fault for fault in FAULTS if fault.code == "TF408")
    (finding,) = named(report(fault.bad, fault), "TF408")
    assert finding.fix is not None
    assert "`enable_thinking`" in finding.fix.text


@pytest.mark.parametrize(
    ("expression", "engine"),
    [
        ("message.content.removeprefix('x')", "minijinja"),
        ("'%s' % message.content", "minijinja"),
        ("'{}'.format(message.content)", "@huggingface/jinja"),
        ("message.content.strip('x')", "@huggingface/jinja"),
        ("dict(a=message.content).a", "@huggingface/jinja"),
        ("message.content.find('x')", "@huggingface/jinja"),
        ("loop.cycle('a', 'b')", "@huggingface/jinja"),
        ("message | tojson(sort_keys=true)", "llama.cpp"),
        ("message.content.replace('a', 'b', 1)", "llama.cpp"),
        ("message.content.startswith(('a', 'b'))", "llama.cpp"),
        ("7 // 2", "llama.cpp"),
        ("'\\u00e9'", "llama.cpp"),
        ("message.parts.0", "llama.cpp"),
        ("messages[::-1]", "old llama.cpp"),
    ],
)
def test_constructs_that_other_engines_lack_are_named_with_the_engine(
    expression: str, engine: str
) -> None:
    template = loop(CONTENT + "{%- set unused = " + expression + " %}\n")
    (finding,) = named(report(template, Fault("PO", "TF407", "", "")), "TF407")
    assert f"({engine}" in finding.message or f", {engine}" in finding.message
    assert finding.locations[0].snippet in expression


@pytest.mark.parametrize(
    "expression",
    ["message.content.strip()", "7 % 2", "message | tojson", "messages[0]", "'\\\\u00e9'"],
)
def test_what_all_engines_do_is_not_named(expression: str) -> None:
    template = loop(CONTENT + "{%- set unused = " + expression + " %}\n")
    assert not named(report(template, Fault("PO", "TF407", "", "")), "TF407")
