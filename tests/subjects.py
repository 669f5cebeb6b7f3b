"""Small templates of our own, made ready: what tests of the core start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from templatefix.checking import CheckOptions, Subject, check, prepare
from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report
from templatefix.source import ChatTemplate, TokenizerRef
from tests.example import EXAMPLE

STOP = {"eos_token": "<|im_end|>"}
_TOKENIZER = TokenizerRef("example", EXAMPLE, EXAMPLE / "tokenizer.json")

#: The end of a template that does nothing else with the generation prompt.
PROMPT = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"
#: Prints every message as it is: the template that only appends.
APPENDS = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}" + PROMPT
)
#: The same for reasoning and tool calls, as JSON.
APPENDS_ALL = (
    """\
{%- if tools %}{{- '<|im_start|>tools\\n' + tools | tojson + '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.reasoning_content is defined %}
{{- '<think>' + message.reasoning_content + '</think>' }}
{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
"""
    + PROMPT
)


def branches(assistant: str, prompt: str = "", before: str = "") -> str:
    """A template whose assistant branch is given; ``prompt`` ends its generation prompt."""
    return (
        before
        + "{%- for message in messages %}\n"
        + "{%- if message.role == 'assistant' %}\n"
        + assistant
        + "\n{%- else %}\n"
        + "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
        + "{%- endif %}\n{%- endfor %}\n"
        + "{%- if add_generation_prompt %}"
        + "{{- '<|im_start|>assistant\\n' }}"
        + prompt
        + "{%- endif %}"
    )


#: Prints the results of an answer's calls with it, and then, or before them, its text.
RESULTS = """\
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}BEFORE
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}</tool_call>' }}
{%- endfor %}
{%- if message.tool_calls %}{{- '<|im_end|>' }}{% endif %}
{%- for other in messages[loop.index:] %}
{%- if other.role != 'tool' %}{% break %}{% endif %}
{{- '<tool_response>' + RESULT + '</tool_response>' }}
{%- endfor %}AFTER
{%- if not message.tool_calls %}{{- '<|im_end|>' }}{% endif %}
{%- elif message.role != 'tool' %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""


def results(before: str, after: str, result: str = "other.content") -> str:
    text = RESULTS.replace("BEFORE", before).replace("AFTER", after)
    return text.replace("RESULT", result)


def template(
    text: str,
    special_tokens: Mapping[str, str] | None = None,
    *,
    exact: bool = True,
    stops: tuple[int, ...] = (),
) -> ChatTemplate:
    """A template with the shipped tokenizer as its own, or (not ``exact``) without any."""
    return ChatTemplate(
        "t",
        "t.jinja",
        text,
        special_tokens=STOP if special_tokens is None else special_tokens,
        stop_token_ids=stops,
        tokenizer=_TOKENIZER if exact else None,
    )


def subject(text: str, **options: Any) -> Subject:
    return prepare(template(text, **options), CheckOptions())


def report(text: str, options: CheckOptions | None = None, **more: Any) -> Report:
    policy = more.pop("policy", "keep-reasoning")
    return check(template(text, **more), options or CheckOptions(), policy)


def by_code(checked: Report) -> dict[str, Finding]:
    """The first finding of each code, the gravest first."""
    found: dict[str, Finding] = {}
    for finding in checked.findings:
        found.setdefault(finding.code, finding)
    return found
