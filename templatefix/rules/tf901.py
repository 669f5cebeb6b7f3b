"""TF901: a target could not be obtained or decoded."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF901",
    name="unreadable",
    severity="error",
    summary="the target could not be obtained or decoded",
    why="""
There is no such file, directory or repository, it needs a token, the network is down, or what is
there is not what its name says. Nothing is known of the template. The exit code is 2.
""",
)
