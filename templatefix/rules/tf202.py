"""TF202: something that was said is not printed at all."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF202",
    name="lost-message",
    severity="error",
    summary="a message, a tool call or a tool result is not printed at all",
    why="""
The template renders the conversation without complaint, but a message, a tool call or a tool
result of it appears nowhere in the prompt. The model answers without knowing what was said. A
usual cause is a branch for tool calls that only runs when the content is null, where servers
send an empty string.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if message.tool_calls and message.content is none %}
{%- for call in message.tool_calls %}
{{- '<call>' + call.function.name + (call.function.arguments | tojson) + '</call>' }}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<call>' + call.function.name + (call.function.arguments | tojson) + '</call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
