"""TF405: a tool call's arguments are taken for one type without a look at them."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF405",
    name="unescaped-string-arguments",
    severity="info",
    summary="a tool call's arguments are taken for a dict, or for text, without a look at them",
    why="""
vLLM makes a dict of a call's arguments; other servers and libraries hand on the string that the
client sent. A template that iterates over items fails, or prints nonsense, for the string; one
that concatenates the arguments fails for the dict. Ask whether they are a string, or a mapping,
and treat each as it wants to be treated.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<call>' + call.function.name }}
{%- for key, value in call.function.arguments | items %}
{{- ' ' + key + '=' + value | tojson }}
{%- endfor %}
{{- '</call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    good="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<call>' + call.function.name + ' ' }}
{%- if call.function.arguments is string %}
{{- call.function.arguments }}
{%- else %}
{{- call.function.arguments | tojson }}
{%- endif %}
{{- '</call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
""",
    special_tokens={"eos_token": "<|im_end|>"},
)
