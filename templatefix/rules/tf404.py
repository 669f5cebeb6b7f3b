"""TF404: a request kwarg decides what stands before the conversation."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF404",
    name="kwargs-in-head",
    severity="info",
    summary="a request kwarg decides what stands before the conversation",
    why="""
An effort level, a date, a mode or an identity that the request passes is printed in front of the
first message, or decides what is printed there. As long as it stays the same nothing is lost.
When it changes in the middle of a conversation, no token of it can be reused. Keep such kwargs
constant over a conversation, or print them behind it.
""",
    bad="""\
{%- if tone is defined %}{{- '<|im_start|>system\\nBe ' + tone + '.<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
