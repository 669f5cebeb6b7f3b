"""TF201: the template prints the beginning-of-sequence token twice."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF201",
    name="double-bos",
    severity="info",
    summary="the prompt begins with the beginning-of-sequence token twice",
    why="""
On the chat path servers encode the rendered text without adding special tokens, so the template
alone is in charge of the beginning-of-sequence token. One that prints it twice feeds the model a
prompt that it was never trained on.
""",
    bad="""\
{{- bos_token }}
{%- for message in messages %}
{%- if loop.first %}{{- bos_token }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{{- bos_token }}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"bos_token": "<|bos|>", "eos_token": "<|im_end|>"},
)
