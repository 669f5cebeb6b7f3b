"""TF109: the prompt depends on the clock."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF109",
    name="clock-dependent",
    severity="warning",
    summary="the rendered prompt changes as time passes",
    why="""
The template prints the date or the time. Whatever stands after it is rendered anew when the
clock moves on: with a date, every conversation loses its cache at midnight; with minutes or
seconds, every request does. A date can be passed as a kwarg, or fixed for a deployment.
""",
    bad="""\
{{- '<|im_start|>system\\nIt is ' + strftime_now('%H:%M:%S') + '<|im_end|>\\n' }}
{%- for message in messages %}
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
