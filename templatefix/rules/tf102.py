"""TF102: the reasoning that the model wrote is not in history."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    if evidence.region in ("head", "frame", "seam") or not evidence.reasoning_is_gone:
        return None
    assert evidence.reasoning is not None
    if evidence.at > evidence.reasoning[1]:
        return None
    opened = evidence.tags is not None and evidence.inside(evidence.tail)
    return "opener-too" if opened else ""


RULE = Rule(
    code="TF102",
    name="dropped-reasoning",
    severity="error",
    summary="history leaves out the reasoning that the model wrote and the client replayed",
    why="""
The model reasons, then answers; the server caches both. The template prints past answers without
their reasoning, even where the client sends it back, so the next prompt leaves the cached tokens
at the start of the reasoning. Keeping it is a trade: more context in exchange for reuse, and most
models were trained on history without it. That is why this is an error only under the policy
keep-reasoning.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.reasoning_content and loop.last %}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.reasoning_content %}
{{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content.lstrip('\\n') + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    holds=_holds,
    special_tokens={"eos_token": "<|im_end|>"},
)
