"""TF001: a suppression gives no reason."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF001",
    name="suppression-without-reason",
    severity="warning",
    summary="a suppression gives no reason",
    why="""
A comment in the template accepts a finding for good, and whoever comes next has to know why: that
the model was trained so, that no client sends such messages, that a server mends it. Write the
reason behind the codes, as in ignore[TF102] followed by a few words.
""",
)
