"""TF403: the clock or chance decides what stands before or inside the conversation."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF403",
    name="nondeterministic-head",
    severity="warning",
    summary="the clock or chance decides what is printed before or inside the conversation",
    why="""
The template reads the clock or draws at random in front of the conversation or within it. Two
requests of one conversation then differ where they should be the same, and everything behind
that place is computed again: daily with a date, at every request with a time or with chance.
Where a rendering shows the clock, it is reported as TF109.
""",
    bad="""\
{{- '<|im_start|>system\\nBe ' + ['calm', 'calm'] | random + '.<|im_end|>\\n' }}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{{- '<|im_start|>system\\nBe calm.<|im_end|>\\n' }}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
