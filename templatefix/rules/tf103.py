"""TF103: text of the generation prompt that carries no reasoning is not in history."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    if evidence.region in ("head", "frame", "seam") or not evidence.inside(evidence.tail):
        return None
    return None if evidence.dropped_block or evidence.reasoning_is_gone else ""


RULE = Rule(
    code="TF103",
    name="dropped-generation-prefix",
    severity="error",
    summary="history does not print the end of the generation prompt that the answer followed",
    why="""
The generation prompt ends in text (a closing tag, a newline, a channel header) that the branch
for past answers does not print. The answer was decoded after that text, so the next prompt
leaves the cached tokens just before the answer.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\nAnswer: ' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}{{- 'Answer: ' }}{% endif %}
{{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\nAnswer: ' }}{% endif %}
""",
    holds=_holds,
    special_tokens={"eos_token": "<|im_end|>"},
)
