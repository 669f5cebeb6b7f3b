"""TF104: history shows other text than the answer that was written."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    if evidence.region != "completion" or evidence.reasoning_is_gone or evidence.dropped_block:
        return None
    if evidence.calls is not None and evidence.at >= evidence.calls[0]:
        return None
    if evidence.reasoning is not None and evidence.at < evidence.reasoning[1]:
        return "reasoning"
    return "" if evidence.content_is_altered else "separator"


RULE = Rule(
    code="TF104",
    name="altered-content",
    severity="error",
    summary="history prints the answer's text otherwise than the model wrote it",
    why="""
A filter such as trim, or a method such as strip, changes the answer when it is printed as
history: leading or trailing whitespace goes, text is replaced, a separator is added. From the
first changed character on, the cached tokens do not match.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '!<|im_end|>\\n' }}
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
