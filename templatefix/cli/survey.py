"""``templatefix survey``."""

from __future__ import annotations

from typing import Any

import click

from templatefix.cli.limits import limit_options, network_option
from templatefix.policy import POLICIES


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGETS...")
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="lossless",
    help="What a patch may change for the model (lossless).",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Workers (one for each core).")
@click.option("--report", metavar="FILE", help="Write the outcome of each template, as JSON.")
@click.option("--tokenizer", metavar="P", help="Tokenizer of all: a path or a hub id.")
@click.option(
    "--tokenizers",
    metavar="FILE",
    help="JSON: a template's file or folder -> its tokenizer, relative to FILE.",
)
@click.option("--revision", metavar="R", help="Branch, tag or commit on the hub.")
@click.option("--offline", is_flag=True, help="Take hub files from the cache only.")
@click.option(
    "--block-size",
    type=click.IntRange(1),
    default=16,
    metavar="N",
    help="Tokens in a cache block (16).",
)
@click.option(
    "--max-examples",
    type=click.IntRange(0),
    default=60,
    metavar="N",
    help="Generated conversations that a candidate has to pass (60).",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", help="Seed of their generation."
)
@limit_options
@network_option
@click.option("-q", "--quiet", is_flag=True, help="Print the counts only.")
@click.option("-v", "--verbose", is_flag=True, help="Print what preserves, and what each took.")
@click.pass_context
def survey(ctx: click.Context, /, targets: tuple[str, ...], **options: Any) -> None:
    """Say how many templates break, and how each can be repaired; write none.

    Targets are those of check; a folder is searched for templates. Every template is repaired as
    patch would repair it, on all cores. The exit code is 1 when one that breaks is not repaired,
    and 2 when one cannot be used.
    """
    from templatefix.cli import survey_session

    ctx.exit(survey_session.run(survey_session.Asked(targets=targets, **options)))
