"""TF205: the template uses a name that nobody supplies."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF205",
    name="unknown-name",
    severity="warning",
    summary="a name is used that no server supplies, without a test whether it is there",
    why="""
An undefined name prints as nothing and fails when something is done with it. A name that the
template never tests is not meant to be optional: it is misspelt, or it belongs to another
program than the servers that render chat templates.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' }}{{ separator }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- set separator = '\\n' %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + separator }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
