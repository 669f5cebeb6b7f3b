"""``templatefix explain``."""

from __future__ import annotations

import click


@click.command()
@click.argument("code")
def explain(code: str) -> None:
    """Explain one rule: why it matters, a template that breaks it and its repaired twin."""
    from templatefix.cli.output import write_stdout
    from templatefix.report.catalogue import explanation
    from templatefix.rules import RULES

    wanted = code.strip().upper()
    by_name = {rule.name: rule for rule in RULES.values()}
    rule = RULES.get(wanted) or by_name.get(code.strip().lower())
    if rule is None:
        raise click.UsageError(f"no rule has the code {code!r}: templatefix rules lists them")
    write_stdout(explanation(rule))
