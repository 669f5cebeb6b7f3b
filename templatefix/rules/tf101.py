"""TF101: an empty thinking block that the model was shown is not in history."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    if evidence.region in ("head", "frame", "seam") or evidence.reasoning is not None:
        return None
    return "" if evidence.dropped_block else None


RULE = Rule(
    code="TF101",
    name="dropped-empty-think",
    severity="error",
    summary="history leaves out the empty thinking block that the answer was written after",
    why="""
With thinking off, the generation prompt ends in an empty thinking block, and the answer is
decoded after it. When the same answer is rendered as history, the block is missing: the next
prompt leaves the cached tokens right where the answer began, and everything that was decoded is
computed again. The block carries no information, so printing it in history costs a few tokens
and gives the whole answer back to the cache.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}
{%- endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}
{%- endif %}
""",
    holds=_holds,
    special_tokens={"eos_token": "<|im_end|>"},
)
