"""TF407: the template uses what other engines do not have, or do otherwise."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF407",
    name="nonportable-construct",
    severity="info",
    summary="other engines cannot render this, or render it otherwise",
    why="""
Chat templates are also rendered by minijinja (in TGI and in vLLM's Rust front end), by llama.cpp's
own engine and by @huggingface/jinja in JavaScript. Each lacks some constructs or does them in its
own way: the generation tag, raw blocks, format, strip with an argument, printing a dict. Where
only vLLM or transformers will ever render the template, this does not matter.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + '%s\\n' % message.role + message.content }}
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
