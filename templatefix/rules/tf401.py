"""TF401: what is printed for a message depends on later messages."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF401",
    name="position-dependent-output",
    severity="warning",
    summary="what is printed for a message depends on the messages after it",
    why="""
A condition or an output for a message asks how the conversation ends: loop.last, loop.revindex,
the number of messages, the last user message. The same message is then printed otherwise once
others follow, and everything after it is lost to the cache. This is read from the template
without rendering it; where a conversation shows the loss, that finding stands instead. Where the
conversations that were tried did not show it, it is a remark only.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if loop.last and message.role == 'critic' %}{{- ' (to be answered)' }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if message.role == 'critic' %}{{- ' (to be answered)' }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
