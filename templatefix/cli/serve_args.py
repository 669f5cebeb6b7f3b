"""``templatefix serve-args``."""

from __future__ import annotations

import re
from typing import Any

import click

from templatefix.cli.check import _json_object
from templatefix.cli.limits import limit_options, limits_of, network_option
from templatefix.serving.choices import CONNECTORS, EMITS, ROLES

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", value.strip(), re.IGNORECASE)
    size = int(found[1]) * _UNITS[found[2].upper()] if found and len(found[1]) < 16 else 0
    if not size:
        raise click.BadParameter("not a number of bytes such as 17179869184 or 16GiB")
    return size


@click.command("serve-args")
@click.argument("target", metavar="TARGET")
@click.option("--chat-template", metavar="FILE", help="Serve this template, not the model's own.")
@click.option("--model", metavar="M", help="What vLLM is started with, where TARGET is a template.")
@click.option(
    "--connector",
    type=click.Choice(CONNECTORS),
    default="none",
    help="Write decoded KV back to this store (none).",
)
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="both",
    help="consumer: the decode instance of a prefill/decode split, for mooncake-store (both).",
)
@click.option("--cpu-bytes", metavar="N", callback=_bytes, help="Host memory for KV (16GiB).")
@click.option(
    "--store-tp-size",
    type=click.IntRange(1),
    metavar="N",
    help="Common layout for instances of different tensor-parallel sizes, for mooncake-store.",
)
@click.option("--kwargs", metavar="JSON", callback=_json_object, help="Chat template kwargs.")
@click.option("--reasoning-parser", metavar="N", help="vLLM's name, or none (inferred).")
@click.option("--tool-call-parser", metavar="N", help="vLLM's name, or none (inferred).")
@click.option("--template-name", metavar="N", help="Check one of several named templates.")
@click.option("--tokenizer", metavar="P", help="Tokenizer to check with: a path or a hub id.")
@click.option("--revision", metavar="R", help="Branch, tag or commit on the hub.")
@click.option("--offline", is_flag=True, help="Take hub files from the cache only.")
@click.option("--emit", type=click.Choice(EMITS), default="text", help="What to print (text).")
@limit_options
@network_option
@click.option("-q", "--quiet", is_flag=True, help="Print no notes and no warnings.")
@click.pass_context
def serve_args(ctx: click.Context, /, target: str, **asked: Any) -> None:
    """Print the vllm serve command that makes the cache hit, and what belongs to it.

    A target is a hub id, a model directory or a template file. The parsers are those that the
    template's markers call for. The template is checked on the way; where hits would end early
    all the same, a warning on stderr says why, and what to do instead.

    text is a shell script: it writes the files that the connector reads, where they are missing,
    and starts the server. env is for systemd or a shell, yaml for vLLM's --config. All of them are
    written for vLLM 0.32 and 0.33, and tested with the parser of 0.32.0.
    """
    from templatefix import __version__
    from templatefix.cli.output import write_stdout
    from templatefix.cli.progress import progress
    from templatefix.cli.standard_input import encoded, standard_input
    from templatefix.errors import TargetError
    from templatefix.report.visible import visible
    from templatefix.serving import emit
    from templatefix.serving.assemble import ServeOptions
    from templatefix.serving.connectors import Storage, connection
    from templatefix.source import SourceOptions
    from templatefix.source.options import STDIN
    from templatefix.worker import Worker

    source = SourceOptions(
        revision=asked["revision"],
        offline=asked["offline"],
        template_name=asked["template_name"],
        tokenizer=asked["tokenizer"],
        chat_template=asked["chat_template"],
        time_limit=asked["network_timeout"],
    )
    options = ServeOptions(
        asked["kwargs"] or {},
        asked["reasoning_parser"],
        asked["tool_call_parser"],
        Storage(asked["connector"], asked["role"], asked["cpu_bytes"], asked["store_tp_size"]),
    )
    try:
        connection(options.storage)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    given = encoded(standard_input()) if target == STDIN else None
    limits = limits_of(asked["time_limit"], asked["memory_limit"])
    with Worker(limits) as worker, progress(wanted=not asked["quiet"]) as shown:
        shown.now(f"checking {target}")
        plan = worker.serve(target, source, options, asked["model"], given)
    word = emit.unprintable(plan)
    if word is not None:
        why = f"{visible(word)} holds characters that no command line should carry"
        raise TargetError(target, why, "rename it")
    if asked["emit"] == "json":
        write_stdout(emit.document(plan, __version__))
        ctx.exit(0)
    write = {"text": emit.text, "env": emit.variables, "yaml": emit.config}[asked["emit"]]
    write_stdout(write(plan))
    if not asked["quiet"]:
        click.echo(emit.advice(plan), err=True, nl=False)
