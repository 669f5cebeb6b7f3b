"""TF105: history ends the answer with another token than the model did."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF105",
    name="stop-token-mismatch",
    severity="info",
    summary="history ends the turn with another token than the one that stopped generation",
    why="""
The model stops with one token (say an end-of-text token), and history prints another in its
place. The last token of a stream has no KV, so nothing that was cached is lost; but a model that
reads its own turns ended otherwise than it ends them is worth knowing about.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if message.role == 'assistant' and loop.last %}{{- eos_token }}
{%- else %}{{- '<|im_end|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if message.role == 'assistant' %}{{- eos_token }}{% else %}{{- '<|im_end|>' }}{% endif %}
{{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|endoftext|>"},
)
