"""``templatefix check``."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from templatefix.cli.limits import limit_options, limits_of, network_option
from templatefix.cli.manner import Manner
from templatefix.cli.target_list import read_targets
from templatefix.errors import TargetError
from templatefix.policy import POLICIES
from templatefix.serving.options import AUTO, ServerOptions
from templatefix.settings import COLORS, FAIL_ON, OUTPUT_FORMATS, Settings


def _codes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    codes = tuple(code.strip() for code in value.split(",") if code.strip())
    if not codes:
        raise click.BadParameter("give codes, separated by commas: TF101,TF102")
    return codes


def _json_object(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    if value is None:
        return None
    import json
    import math

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        return number if math.isfinite(number) else refuse(digits)

    try:
        parsed = json.loads(value, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise click.BadParameter("""not a JSON object such as '{"enable_thinking": false}'""")
    return parsed


@click.command(no_args_is_help=False)
@click.argument("targets", nargs=-1, metavar="TARGETS...")
@click.option("--targets-from", metavar="FILE", help="More targets, one a line (- for stdin).")
@click.option("--tokenizer", metavar="P", help="Tokenizer: a path or a hub id.")
@click.option("--chat-template", metavar="P", help="Template file that replaces the target's own.")
@click.option("--template-name", metavar="N", help="Check one of several named templates.")
@click.option("--revision", metavar="R", help="Branch, tag or commit on the hub.")
@click.option("--offline/--no-offline", help="Take hub files from the cache only.")
@click.option("--conversation", metavar="FILE", help="Replay this conversation (- for stdin).")
@click.option("--recorded", metavar="FILE", help="Replay recorded requests (JSON lines, or -).")
@click.option("--recover/--no-recover", help="Show a patch, too: recorded, html, plot (yes).")
@click.option("--kwargs", metavar="JSON", callback=_json_object, help="Fix chat template kwargs.")
@click.option("--policy", type=click.Choice(POLICIES), help="What may be lost (keep-reasoning).")
@click.option("--block-size", type=click.IntRange(1), metavar="N", help="Tokens in a cache block.")
@click.option("--reasoning-parser", metavar="N", help="vLLM's --reasoning-parser.")
@click.option("--tool-call-parser", metavar="N", help="vLLM's --tool-call-parser.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), help="Exit 1 from here (warning).")
@click.option("--output-format", type=click.Choice(OUTPUT_FORMATS), help="Default: text.")
@click.option("--output", metavar="FILE", help="Write the report to a file; html, to a folder.")
@click.option("--plot", metavar="FILE", help="Draw the reuse of four turns (.svg, .png).")
@click.option("--resume", metavar="FILE", help="Go on with a file of JSON lines; begin it.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Workers (one for each core).")
@click.option("--executor", metavar="URL", help="Workers of a cluster: dask://HOST:PORT.")
@click.option("--full/--no-full", help="Report the turns of every run.")
@click.option("--strict-coverage/--no-strict-coverage", help="Exit 1 when nothing was evaluated.")
@click.option("--select", metavar="CODES", callback=_codes, help="Report these codes only.")
@click.option("--ignore", metavar="CODES", callback=_codes, help="Do not report these codes.")
@click.option("--config", metavar="FILE", help="Settings file, instead of the nearest one.")
@click.option("--isolated", is_flag=True, help="Read no settings file.")
@click.option("--baseline", metavar="FILE", help="Hide the findings that the file accepts.")
@click.option("--write-baseline", metavar="FILE", help="Accept all findings: write them there.")
@click.option("--max-examples", type=click.IntRange(0), metavar="N", help="Search effort (20).")
@click.option("--search/--no-search", help="Search for conversations beyond the battery.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of the search.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings only.")
@click.option("-v", "--verbose", is_flag=True, help="Print runs, skipped files and details.")
@click.option("--color", type=click.Choice(COLORS), help="Default: auto; NO_COLOR is honoured.")
@click.option("--server", metavar="URL", help="Check through a vLLM server; auto starts one.")
@click.option("--server-args", metavar="ARGS", help="With auto: more for vllm launch render.")
@click.option("--server-timeout", type=click.FloatRange(0.1), metavar="S", help="Seconds a reply.")
@click.option("--api-key", metavar="KEY", envvar="TEMPLATEFIX_API_KEY", help="The server's key.")
@limit_options
@network_option
@click.option("--hook", is_flag=True, hidden=True)
@click.pass_context
def check(ctx: click.Context, /, targets: tuple[str, ...], **options: Any) -> None:
    """Find what makes a server lose its cached tokens.

    A target is a hub id, a model directory, a template file (.jinja, .j2), tokenizer_config.json,
    chat_template.json, a GGUF file, or - for a template on standard input. With --server, it is
    also a model without a template: the one that is served.

    Under keep-reasoning dropped reasoning is an error, under lossless it is information. The
    header of a patched file names its policy; check takes keep-reasoning for all others, while
    patch works under lossless unless it is told otherwise.
    """
    from templatefix.cli import session
    from templatefix.cli.pages import expect_drawable

    given = {
        name: value
        for name, value in options.items()
        if ctx.get_parameter_source(name)
        in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    }
    apart = {
        name: given.pop(name, None)
        for name in ("config", "isolated", "write_baseline", "hook", "targets_from")
    }
    listed = apart["targets_from"]
    if listed == "-" and "-" in (*targets, given.get("conversation"), given.get("recorded")):
        raise click.UsageError("--targets-from - leaves no standard input for anything else")
    if listed is not None:
        targets = (*targets, *read_targets(listed))
        if not targets:
            raise TargetError(listed, "names no target", "write one a line")
    if not targets:
        raise click.UsageError("Missing argument 'TARGETS...'.")
    # Nor may a settings file that came with a model say what its template may take.
    limits = limits_of(given.pop("time_limit", None), given.pop("memory_limit", None))
    server = _server(
        **{
            name: given.pop(name, None)
            for name in ("server", "server_args", "server_timeout", "api_key")
        }
    )
    if server is not None and given.get("recorded") is not None:
        raise click.UsageError("--server and --recorded exclude each other")
    if given.get("conversation") == "-" and "-" in targets:
        raise click.UsageError("the target and --conversation cannot both be standard input")
    if given.get("recorded") is not None and given.get("conversation") is not None:
        raise click.UsageError("--recorded and --conversation exclude each other")
    # What the command line replays takes the place of what a settings file names.
    for one, other in (("recorded", "conversation"), ("conversation", "recorded")):
        if given.get(one) is not None:
            given[other] = None
    if given.get("recorded") == "-" and ("-" in targets or len(targets) > 1):
        raise click.UsageError("a recording on standard input needs one target that is not - too")
    if given.get("plot") is not None:
        if len(targets) > 1:
            raise click.UsageError("--plot draws one target")
        expect_drawable(given["plot"])
    if apart["config"] and apart["isolated"]:
        raise click.UsageError("--config and --isolated exclude each other")
    own = _own(given, server)
    known = session.known_codes()
    unknown = session.unknown_codes(Settings().with_given(given), known)
    if unknown:
        raise click.UsageError(f"no rule has the code {unknown[0]!r}: templatefix rules lists them")
    plan = session.plan(
        targets,
        given,
        config=apart["config"],
        isolated=bool(apart["isolated"]),
        known=known,
    )
    if plan[0].settings.output_format == "jsonl" and apart["write_baseline"]:
        raise click.UsageError("--write-baseline has no use for JSON lines: choose another format")
    baseline = apart["write_baseline"]
    manner = Manner(
        Path(baseline) if baseline else None,
        bool(apart["hook"]),
        server,
        limits,
        **own,
    )
    ctx.exit(session.run(plan, manner))


def _own(given: dict[str, Any], server: ServerOptions | None) -> dict[str, Any]:
    """What the command line says of how the work is done and where JSON lines go, which no
    settings file may say: taken out of ``given``."""
    names = ("jobs", "executor", "resume", "network_timeout")
    own = {name: given.pop(name) for name in names if given.get(name) is not None}
    if "resume" in own:
        if given.get("output") is not None:
            raise click.UsageError("--resume and --output exclude each other")
        if given.setdefault("output_format", "jsonl") != "jsonl":
            raise click.UsageError("--resume goes on with JSON lines: --output-format jsonl")
        given["output"] = None
    if "executor" in own:
        if not re.fullmatch(r"dask://[^/\s]+:\d+", own["executor"]):
            raise click.UsageError("--executor takes dask://HOST:PORT")
        if server is not None or "jobs" in own:
            raise click.UsageError("--executor excludes --jobs and --server")
        if given.get("recorded") == "-":
            raise click.UsageError("--executor cannot read a recording on standard input")
    if "jobs" in own and server is not None:
        raise click.UsageError("--jobs and --server exclude each other: a server has one client")
    return own


def _server(
    server: str | None, server_args: str | None, server_timeout: float | None, api_key: str | None
) -> ServerOptions | None:
    """What the command line says of a server: no settings file that came with a model may."""
    if server is None:
        if server_args is not None or server_timeout is not None:
            raise click.UsageError("--server-args and --server-timeout belong to --server")
        return None
    if server_args is not None and server != AUTO:
        raise click.UsageError("--server-args are for the server that --server auto starts")
    try:
        arguments = tuple(shlex.split(server_args or ""))
    except ValueError as error:
        raise click.UsageError(f"--server-args: {error}") from None
    limit = {} if server_timeout is None else {"timeout": server_timeout}
    return ServerOptions(server, arguments, api_key, **limit)
