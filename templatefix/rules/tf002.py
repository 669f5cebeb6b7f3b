"""TF002: a suppression suppresses nothing, or cannot be understood."""

from templatefix.rules.rule import Rule

RULE = Rule(
    code="TF002",
    name="unused-suppression",
    severity="warning",
    summary="a suppression suppresses nothing",
    why="""
The finding that a comment accepts is not there: it has been mended, it is reported at another
construct, or the comment is misspelt. Left in place it would hide the fault when it comes back.
Remove it, or move it in front of the construct that the finding names.
""",
)
