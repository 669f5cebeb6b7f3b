"""TF108: the same text, but other tokens at the seam between prompt and completion."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    return "" if evidence.region == "seam" else None


RULE = Rule(
    code="TF108",
    name="token-seam",
    severity="warning",
    summary="the text is the same, but it is encoded to other tokens than the model emitted",
    why="""
The server renders history to text and encodes that text as a whole. Where a completion meets the
text around it, the tokenizer may join characters that the model had emitted as separate tokens:
a space or a newline at the end of the generation prompt, a stop marker that is no special token.
The texts agree, the ids do not, and the cache is keyed by ids.
""",
    bad="""\
{%- for message in messages %}
{{- message.role + ':\\n' + message.content + '\\n' }}
{%- if message.role == 'assistant' %}{{- '\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- 'assistant:\\n' }}{% endif %}
""",
    holds=_holds,
)
