"""TF408: the user gives a kwarg that the template does not read."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF408",
    name="undeclared-kwarg",
    severity="warning",
    summary="a kwarg is given that the template does not read",
    why="""
vLLM hands a kwarg on to the template only if the template names it, and drops every other without
a word: a misspelt enable_thinking leaves thinking as it was, and the answers look almost right.
The names that were given with the check, or in the conversation, are compared with the names
that the template reads.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{%- set opener = '(brief) ' if brief is defined and brief else '' %}
{{- '<|im_start|>' + message.role + '\\n' + opener + message.content }}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' + ('(brief) ' if brief is defined and brief else '') }}
{%- endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
    kwargs={"brief": True},
)
