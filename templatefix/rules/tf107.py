"""TF107: the text before the first user message changes from request to request."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    return "" if evidence.region == "head" else None


RULE = Rule(
    code="TF107",
    name="rewritten-head",
    severity="error",
    summary="the system or tools text at the head is rendered otherwise, or elsewhere, next time",
    why="""
The system message or the tools block stands before the first user message in one request and
elsewhere, or in other words, in the next: some formats print it with the last user message. Then
the prompts part within their first tokens and nothing at all of the conversation is reused.
""",
    bad="""\
{%- set last = messages | selectattr('role', 'equalto', 'user') | list | last %}
{%- for message in messages if message.role != 'system' %}
{%- if message is sameas last and messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    holds=_holds,
    special_tokens={"eos_token": "<|im_end|>"},
)
