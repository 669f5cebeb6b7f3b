"""TF204: add_generation_prompt changes nothing although an answer has a header."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF204",
    name="generation-prompt-ignored",
    severity="warning",
    summary="add_generation_prompt changes nothing, although answers begin with a header",
    why="""
Servers ask for a generation prompt so that the model continues as the assistant. This template
prints the same text with and without it, while every answer in history begins with a header: the
model has to write that header itself, and may write another role's.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
