"""TF501: the server renders the model without any template."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF501",
    name="not-rendered-by-jinja",
    severity="warning",
    summary="vLLM renders this model with code of its own, not with a template",
    why="""
Some models have prompts that vLLM builds in Python: DeepSeek V3.2, V4 and V4.1, gpt-oss (harmony),
Kimi K3, Mistral's own tokenizer files. It chooses that code by config.json or by the names of the
model's files, and --chat-template is ignored without a word; so is the template that lies beside
the model. A verdict on that template says nothing about such a server, though other servers may
use it. Where a vLLM is installed, check renders and parses through it, and the verdict is that of
the code; then this finding is information, and says which ways out there are: a kwarg that keeps
past reasoning, --tokenizer-mode hf, which brings Jinja back, with a prefix-preserving template, an
environment variable that keeps the head as it is, or none.
""",
)
