"""TF602: the template reaches behind the values that it is given."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF602",
    name="unsafe-construct",
    severity="error",
    summary="the template reaches for Python's internals, or for other files",
    why="""
Names such as __class__, __globals__ or f_builtins lead from any value to the interpreter, and
from there to files and commands; attr, map and format strings look them up just as well. Include
and import ask for other files. A chat template needs none of it. Servers render in a sandbox that
refuses most of this, but not all of them, and not every sandbox without gaps: look at where the
template comes from before it is used anywhere.
""",
    bad="""\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if debug is defined %}{{- messages.__class__.__mro__ }}{% endif %}
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
