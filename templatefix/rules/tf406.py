"""TF406: a key that may be missing is used as if it were always there."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF406",
    name="unguarded-none",
    severity="warning",
    summary="a value that may be missing is concatenated, called or looped over without a test",
    why="""
Clients may leave out the name of a tool message, the description of a tool, or the reasoning of
an answer. Jinja raises when an undefined value is concatenated with + or has a method called on
it, and the server turns that into a failed request. Test the value, give it a default, or
concatenate with ~, which prints nothing for it.
""",
    bad="""\
{%- for message in messages %}
{%- if message.role == 'tool' %}{{- '[' + message.name + '] ' }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{%- if message.role == 'tool' %}{{- '[' ~ message.name ~ '] ' }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
