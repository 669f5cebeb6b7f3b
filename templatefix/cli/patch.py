"""``templatefix patch``."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from templatefix.cli.check import _json_object
from templatefix.cli.limits import limit_options, network_option
from templatefix.policy import POLICIES
from templatefix.serving.choices import CONNECTORS

EMITS = ("jinja", "tokenizer-config")


@click.command()
@click.argument("target", metavar="TARGET")
@click.option("--out", metavar="FILE", help="Write the template there (- for standard output).")
@click.option("--in-place", is_flag=True, help="Write it back to where it came from.")
@click.option("--diff", is_flag=True, help="Print a unified diff; exit 1 if there is one.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    help="What the patch may change for the model (lossless).",
)
@click.option(
    "--fix", metavar="CODES", multiple=True, help="Repair TF2xx findings too: TF202,TF203."
)
@click.option("--prefer-kwargs", is_flag=True, help="Print a server's flags where they suffice.")
@click.option("--emit", type=click.Choice(EMITS), help="What to write (jinja).")
@click.option("--report", metavar="FILE", help="Write what was done and proven, as JSON.")
@click.option("--kwargs", metavar="JSON", callback=_json_object, help="Fix chat template kwargs.")
@click.option("--tokenizer", metavar="P", help="Tokenizer: a path or a hub id.")
@click.option("--chat-template", metavar="P", help="Template file that replaces the target's own.")
@click.option("--template-name", metavar="N", help="Patch one of several named templates.")
@click.option("--revision", metavar="R", help="Branch, tag or commit on the hub.")
@click.option("--offline/--no-offline", help="Take hub files from the cache only.")
@click.option("--config", metavar="FILE", help="Settings file, instead of the nearest one.")
@click.option("--isolated", is_flag=True, help="Read no settings file.")
@click.option(
    "--block-size", type=click.IntRange(1), metavar="N", help="Tokens in a cache block (16)."
)
@click.option("--reasoning-parser", metavar="N", help="vLLM's --reasoning-parser.")
@click.option("--tool-call-parser", metavar="N", help="vLLM's --tool-call-parser.")
@click.option(
    "--connector",
    type=click.Choice(CONNECTORS),
    default="none",
    help="Print the vllm serve command with this store for KV (none).",
)
@click.option(
    "--max-examples",
    type=click.IntRange(0),
    default=60,
    metavar="N",
    help="Generated conversations that a candidate has to pass (60).",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of their generation.")
@limit_options
@network_option
@click.option("-q", "--quiet", is_flag=True, help="Say only what is left or went wrong.")
@click.option("-v", "--verbose", is_flag=True, help="Say what was tried, too.")
@click.pass_context
def patch(ctx: click.Context, /, target: str, **options: Any) -> None:
    """Repair a template with the smallest change that is proven to work.

    A target is a hub id, a model directory, a template file (.jinja, .j2), tokenizer_config.json,
    chat_template.json, a GGUF file, or - for a template on standard input.

    Under lossless the model sees the same information as before; under keep-reasoning it also
    sees the reasoning of past answers that a client sends back. Other faults of a template are
    left as they are, unless --fix names their codes.
    """
    from templatefix.cli import patch_session

    given = {
        name: value
        for name, value in options.items()
        if ctx.get_parameter_source(name)
        in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    }
    if sum([bool(options["out"]), options["in_place"], options["diff"]]) != 1:
        raise click.UsageError("give one of --out FILE, --in-place and --diff")
    if options["in_place"] and target == "-":
        raise click.UsageError("--in-place cannot write to standard input")
    if options["config"] and options["isolated"]:
        raise click.UsageError("--config and --isolated exclude each other")
    try:
        options["fix"] = patch_session.fixes(options["fix"])
    except patch_session.Unfixable as unfixable:
        raise click.UsageError(str(unfixable)) from None
    ctx.exit(patch_session.run(patch_session.asked(target, options, given)))
