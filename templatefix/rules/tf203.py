"""TF203: rendering crashes on a conversation that servers do send."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF203",
    name="crash-on-valid-input",
    severity="warning",
    summary="rendering fails with an error of its own on a valid conversation",
    why="""
The template concatenates, indexes or calls something that is not of the type it expects: a
tool call's arguments are a dict where it expects a string, content is a list, a key is missing.
The server turns the exception into a failed request. A call of raise_exception is a refusal, not
a crash, and is reported as TF206.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<call>' + call.function.name + call.function.arguments + '</call>' }}
{%- endfor %}
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
