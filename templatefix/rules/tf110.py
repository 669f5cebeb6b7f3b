"""TF110: history is shown otherwise when the mode of the request changes."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF110",
    name="mode-dependent-history",
    severity="info",
    summary="past turns are rendered otherwise when the request switches to another mode",
    why="""
A kwarg of the current request decides how past turns are printed, although they were written
under the kwarg of their own request. A conversation that switches between thinking and not
thinking then loses its cache at every switch. Clients that keep one mode are not affected.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and brief is defined and brief %}
{{- '<brief>' }}
{%- endif %}
{{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if brief is defined and brief %}{{- '<brief>' }}{% endif %}
{%- endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
