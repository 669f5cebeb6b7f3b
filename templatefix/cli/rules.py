"""``templatefix rules``."""

from __future__ import annotations

import click

FORMATS = ("text", "json", "markdown")


@click.command()
@click.option("--output-format", type=click.Choice(FORMATS), default="text", help="Default: text.")
def rules(output_format: str) -> None:
    """List the rules."""
    from templatefix.cli.output import write_stdout
    from templatefix.report.catalogue import catalogue
    from templatefix.rules import RULES

    write_stdout(catalogue(list(RULES.values()), output_format))
