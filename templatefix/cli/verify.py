"""``templatefix verify``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from templatefix.cli.check import _json_object
from templatefix.cli.limits import limit_options, limits_of

if TYPE_CHECKING:
    from templatefix.findings.verification import Verification
    from templatefix.limits import Limits
    from templatefix.source import ChatTemplate
    from templatefix.worker import Worker

CLIENTS = ("faithful", "reasoning-dropping", "both")
FORMATS = ("text", "json")
#: Not OPENAI_API_KEY: that one is for another server than the one that is named here.
KEY_VARIABLE = "TEMPLATEFIX_API_KEY"


@click.command()
@click.argument("url", metavar="URL")
@click.option("--model", required=True, metavar="NAME", help="The model's name on the server.")
@click.option(
    "--turns", type=click.IntRange(2), metavar="N", help="Requests of a conversation (4)."
)
@click.option("--conversation", metavar="FILE", help="Ask what this one asks (- for stdin).")
@click.option(
    "--client",
    type=click.Choice(CLIENTS),
    default="faithful",
    help="Replays answers whole (faithful), without reasoning, or one after the other (both).",
)
@click.option("--stream/--no-stream", default=False, help="Receive answers as they are written.")
@click.option("--tools/--no-tools", default=None, help="Offer tools.")
@click.option(
    "--kwargs",
    metavar="JSON",
    callback=_json_object,
    help="chat_template_kwargs of each request.",
)
@click.option(
    "--template", metavar="FILE", help="Send this one too, and compare it with the served one."
)
@click.option(
    "--target", metavar="P", help="Model directory or hub id: renders what the server hides."
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=512,
    metavar="N",
    help="Longest answer, in tokens (512).",
)
@click.option(
    "--block-size",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens in a cache block: 1 for a radix cache (what the server's metrics say, or 16).",
)
@click.option("--extra-body", metavar="JSON", callback=_json_object, help="Fields of each request.")
@click.option(
    "--reset-local-cache",
    is_flag=True,
    help="POST /reset_prefix_cache before each turn but the first: only a store can answer then.",
)
@click.option(
    "--write-back/--no-write-back",
    default=True,
    help="With --reset-local-cache: whether the store is expected to hold answers, too.",
)
@click.option(
    "--salt/--no-salt",
    default=True,
    help="Send a cache_salt, so that nothing of an earlier conversation is found.",
)
@click.option("--token-ids/--no-token-ids", default=True, help="Ask for token ids.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    metavar="SECONDS",
    help="Longest time for one request (120).",
)
@click.option(
    "--api-key",
    metavar="KEY",
    envvar=KEY_VARIABLE,
    help=f"Key of the server, never printed. Also: {KEY_VARIABLE}.",
)
@click.option("--ca", metavar="FILE", help="Certificates to trust, in PEM form.")
@click.option("--insecure", is_flag=True, help="Trust any certificate.")
@click.option("--output-format", type=click.Choice(FORMATS), default="text", help="Default: text.")
@click.option("--output", metavar="FILE", help="Write the report to a file.")
@limit_options
@click.option("-q", "--quiet", is_flag=True, help="Print tables and the last line only.")
@click.pass_context
def verify(ctx: click.Context, /, url: str, **options: Any) -> None:
    """Hold a live server's cache hits to what is predicted from its token ids.

    Sends a conversation to an OpenAI-compatible server at URL (vLLM, SGLang), one request a turn,
    replays its answers, and compares the cached tokens that it reports with the block accounting.

    Exit code 0: every prompt continues the stream before it, and every prediction came true. 1: a
    prompt does not, or a prediction did not. 2: the server or an option could not be used, or the
    server shows nothing to compare. With --template, prompts are judged under the candidate.
    """
    from templatefix import __version__
    from templatefix.cli.output import expect_writable, tell_written, write_file, write_stdout
    from templatefix.cli.progress import progress
    from templatefix.cli.session import read_conversation_file
    from templatefix.report.verify_json import verify_json
    from templatefix.report.verify_text import verify_text
    from templatefix.serving.live import Security, VerifyOptions
    from templatefix.serving.live import verify as drive

    if options["ca"] and options["insecure"]:
        raise click.UsageError("--ca and --insecure exclude each other")
    limits = limits_of(options["time_limit"], options["memory_limit"])
    if options["output"] is not None:
        expect_writable(options["output"])
    named = options["conversation"]
    client = options["client"]
    asked = VerifyOptions(
        model=options["model"],
        turns=options["turns"],
        conversation=None if named is None else read_conversation_file(named),
        clients=("faithful", "reasoning-dropping") if client == "both" else (client,),
        streaming=options["stream"],
        tools=options["tools"],
        kwargs=_or_nothing(options["kwargs"]),
        max_tokens=options["max_tokens"],
        block_size=options["block_size"],
        seconds=options["timeout"],
        security=Security(options["api_key"] or None, options["ca"], options["insecure"]),
        template=None if options["template"] is None else _template(options["template"]),
        extra_body=_or_nothing(options["extra_body"]),
        reset=options["reset_local_cache"],
        write_back=options["write_back"],
        salt=options["salt"],
        token_ids=options["token_ids"],
    )
    with ExitStack() as stack:
        twin_of = None
        if options["target"] is not None:
            worker = stack.enter_context(_worker(limits))
            asked = replace(asked, target=_target(options["target"], worker))
            twin_of = worker.twin
        shown = stack.enter_context(progress(wanted=not options["quiet"]))
        verification = drive(url, asked, shown.now, twin_of)
    # A report for people that nobody gets to see, or that has no turn in it, is one line on stderr.
    for_people = options["output_format"] == "text"
    begun = any(run.turns for run in verification.runs)
    if begun or not for_people:
        if for_people:
            text = verify_text(verification, quiet=options["quiet"])
        else:
            text = verify_json(verification, __version__)
        if options["output"] is None:
            write_stdout(text)
        else:
            write_file(options["output"], text)
            tell_written(options["output"], quiet=options["quiet"])
    told = for_people and begun and options["output"] is None
    if verification.fault is not None and not told:
        from templatefix.report.visible import visible

        click.echo(f"templatefix: {visible(f'{verification.url}: {verification.fault}')}", err=True)
    ctx.exit(exit_code(verification))


def exit_code(verification: Verification) -> int:
    """0, 1 or 2, as the command's help says."""
    if verification.fault is not None:
        return 2
    if verification.preserving is False or verification.agrees is False:
        return 1
    return 2 if verification.preserving is None and verification.agrees is None else 0


def _or_nothing(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if given is None else given


def _worker(limits: Limits) -> Worker:
    """The child that renders. Without a target nothing is rendered here, and nothing imported."""
    from templatefix.worker import Worker

    return Worker(limits)


def _target(name: str, worker: Worker) -> ChatTemplate:
    from templatefix.source import SourceOptions

    return worker.the_template(name, SourceOptions())


def _template(name: str) -> str:
    from templatefix.errors import TargetError

    try:
        return Path(name).read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise TargetError(name, f"cannot be read: {reason}", "check the path") from error
    except ValueError as error:
        raise TargetError(name, "is not UTF-8", "save it as UTF-8") from error
