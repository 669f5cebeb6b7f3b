"""``templatefix ready``: the ready templates that ship with the package."""

from __future__ import annotations

import click

from templatefix.cli.limits import limit_options, limits_of, network_option

FORMATS = ("text", "json", "markdown")


@click.group(invoke_without_command=True)
@click.pass_context
def ready(ctx: click.Context) -> None:
    """Repaired templates to pass to vllm serve --chat-template, each with what was measured."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(2)


@ready.command("list")
@click.option("--output-format", type=click.Choice(FORMATS), default="text", help="Default: text.")
def list_(output_format: str) -> None:
    """List them."""
    from templatefix.cli.output import write_stdout
    from templatefix.ready.shelf import shelf
    from templatefix.report.ready import listing

    write_stdout(
        listing([(each.name, each.header, each.record) for each in shelf()], output_format)
    )


@ready.command()
@click.argument("name")
def show(name: str) -> None:
    """Show what one changes, what was measured, and how to serve it."""
    from templatefix.cli.output import write_stdout
    from templatefix.ready.shelf import take
    from templatefix.report.ready import shown

    found = take(name)
    write_stdout(shown(found.name, str(found.path), found.header, found.record))


@ready.command()
@click.argument("name")
def path(name: str) -> None:
    """Print the path of one.

    It is what vllm serve takes: --chat-template "$(templatefix ready path NAME)".
    """
    from templatefix.cli.output import write_stdout
    from templatefix.ready.shelf import take

    write_stdout(f"{take(name).path}\n")


@ready.command("for")
@click.argument("target", metavar="TARGET")
@click.option("--tokenizer", metavar="P", help="Tokenizer: a path or a hub id.")
@click.option("--revision", metavar="R", help="Branch, tag or commit on the hub.")
@click.option("--offline", is_flag=True, help="Take hub files from the cache only.")
@limit_options
@network_option
@click.pass_context
def for_(
    ctx: click.Context,
    target: str,
    tokenizer: str | None,
    revision: str | None,
    offline: bool,
    network_timeout: float,
    time_limit: float | None,
    memory_limit: int | None,
) -> None:
    """Find the one that serves a model.

    It is found by the model's id, else by what the model's template renders. Prints the path of
    each that fits; exit code 1 where none does.
    """
    from templatefix.cli import ready_session
    from templatefix.source import SourceOptions

    source = SourceOptions(revision, offline, tokenizer=tokenizer, time_limit=network_timeout)
    ctx.exit(ready_session.find(target, source, limits_of(time_limit, memory_limit)))


@ready.command()
@click.argument("name")
@click.option(
    "--reference",
    "references",
    metavar="MODEL_ID=TARGET",
    multiple=True,
    help="Where the published template of a model that the header names is (default: the hub).",
)
@click.option("--tokenizer", metavar="P", help="Tokenizer: a path or a hub id.")
@click.option("--offline", is_flag=True, help="Take hub files from the cache only.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the record is stale.")
@click.option(
    "--max-examples",
    type=click.IntRange(0),
    default=100,
    metavar="N",
    help="Generated conversations for each reference (100).",
)
@limit_options
@network_option
@click.pass_context
def record(
    ctx: click.Context,
    name: str,
    references: tuple[str, ...],
    tokenizer: str | None,
    offline: bool,
    check: bool,
    max_examples: int,
    network_timeout: float,
    time_limit: float | None,
    memory_limit: int | None,
) -> None:
    """Measure one, and write its record.

    It is measured against the published templates; the record is written beside it.
    """
    from templatefix.cli import ready_session
    from templatefix.source import SourceOptions

    source = SourceOptions(offline=offline, tokenizer=tokenizer, time_limit=network_timeout)
    limits = limits_of(time_limit, memory_limit)
    ctx.exit(ready_session.record(name, references, source, check, max_examples, limits))
