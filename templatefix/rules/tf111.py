"""TF111: a system, user or tool message in history is rendered otherwise later."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    return "" if evidence.region == "frame" else None


RULE = Rule(
    code="TF111",
    name="rewritten-history",
    severity="error",
    summary="a user or tool message, or the markup around it, is rendered otherwise next time",
    why="""
A message that no model wrote is printed in one way while it is the newest, and in another once
others follow: a hint appended to the last user message, a tool result that is shortened later.
Everything after it is lost, the answer included.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if loop.last and message.role == 'user' %}{{- '\\n(be brief)' }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if message.role == 'user' %}{{- '\\n(be brief)' }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    holds=_holds,
    special_tokens={"eos_token": "<|im_end|>"},
)
