"""TF206: the template refuses an order of messages that servers produce."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF206",
    name="refuses-valid-order",
    severity="info",
    summary="the template refuses a conversation that servers do send",
    why="""
The template calls raise_exception on roles or an order of roles that vLLM itself hands over: a
system message, a tool result, a developer message. The request fails with the template's own
words. Often that is meant; clients still have to know.
""",
    bad="""\
{%- for message in messages %}
{%- if message.role == 'system' %}{{- raise_exception('no system message, please') }}{% endif %}
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
    special_tokens={"eos_token": "<|im_end|>"},
)
