"""TF402: the text of an answer is changed before it is printed."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF402",
    name="lossy-filter-on-content",
    severity="info",
    summary="an answer's text passes a filter that loses something",
    why="""
trim, strip, split, replace, lower or int on the content or the reasoning of an answer: what they
take away the model has written, and it is in the cache. An answer that begins or ends in such
text is not printed as it was generated, and reuse stops there. Where a conversation shows that,
it is reported as TF104. Print the text as it is, or trim only what no model writes.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content | replace('…', '...') }}
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
