"""TF106: history shows a tool call otherwise than the model wrote it."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    if evidence.region != "completion" or evidence.calls is None:
        return None
    if evidence.reasoning_is_gone or evidence.dropped_block:
        return None
    return "" if evidence.at >= evidence.calls[0] else None


RULE = Rule(
    code="TF106",
    name="altered-tool-call",
    severity="error",
    summary="history prints a tool call otherwise than the model wrote it",
    why="""
A call is parsed by the server, replayed as JSON by the client and printed again by the template.
Where the template spells it otherwise (other separators, another order, a missing newline between
calls, no content before it), the next prompt leaves the cached tokens inside the call, and the
rest of the turn is lost with it.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\\n' + call.function.name + ' ' }}
{%- if loop.last and message is sameas messages[-1] %}
{{- call.function.arguments | tojson }}
{%- else %}
{{- call.function.arguments | tojson(separators=(',', ':')) }}
{%- endif %}
{{- '\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\\n' + call.function.name + ' ' + (call.function.arguments | tojson) }}
{{- '\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    holds=_holds,
    special_tokens={"eos_token": "<|im_end|>"},
)
