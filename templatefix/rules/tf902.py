"""TF902: the template does not compile."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF902",
    name="syntax-error",
    severity="error",
    summary="the template does not compile",
    why="""
Jinja, with the extensions that servers load (loop controls and the generation tag), cannot
compile the template: a tag is left open, a filter does not exist, the nesting is too deep. A
server refuses to start with it, or fails every request.
""",
    bad="{% for message in messages %}{{ message.content }}",
    good="{% for message in messages %}{{ message.content }}{% endfor %}",
)
