"""TF301: the server's parser does not return the text as the model wrote it."""

from templatefix.findings.evidence import Evidence
from templatefix.rules.rule import Rule


def _holds(evidence: Evidence) -> str | None:
    return evidence.lost_by_parser


RULE = Rule(
    code="TF301",
    name="parser-loss",
    severity="info",
    summary="the server's parser changes the text before the client gets it: it cannot come back",
    why="""
Between the model and the client stands the server's parser. What it drops (whitespace before a
closing tag, the spelling of numbers in arguments) no template can print again, and what it leaves
in the wrong field (the newline between content and a call) is printed twice by templates that
add their own. That is not the template's fault, but it ends reuse all the same.
""",
    holds=_holds,
)
