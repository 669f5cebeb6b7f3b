"""TF601: the template takes more time, memory or output than it may."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF601",
    name="resource-limit",
    severity="error",
    summary="the template takes more than it may",
    why="""
A template is a program that a server runs for every request. One that loops over a huge range,
builds a text of gigabytes or calls itself without end makes the server stand still, whoever sends
the request; some do so in a late turn or under one kwarg only. Each parse, compilation and
rendering has a limit of time (--time-limit), memory (--memory-limit) and output; so has the size of
a template. What is beyond a limit is set aside, and the rest of the template is checked as usual.
""",
)
