"""From a model, a template and what is asked to the command that serves them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from templatefix.findings.outcome import Report
from templatefix.serving import caveats
from templatefix.serving.connectors import Connection, Storage, connection
from templatefix.serving.plan import CONFIG_FLAG, KWARGS_FLAG, Beside, FlagValue, Serving, Warned
from templatefix.serving.renderers import Recognised, recognise

#: What stands where only the user knows the word.
MODEL, FILE = "MODEL", "FILE"
#: For --reasoning-parser and --tool-call-parser: none at all.
NO_PARSER = "none"
# Our name for the older form of calls, which vLLM's parser tells by the tokenizer.
_VLLM_NAMES = {"mistral-array": "mistral"}


@dataclass(frozen=True)
class Served:
    """What a server is to be started with.

    ``model`` is a hub id, a directory or a file, ``template`` the file for ``--chat-template``
    (None: the model's own, whatever it is). ``config``, ``files`` and ``attention`` are the
    model's; ``inferred`` are the parsers that the template calls for.
    """

    model: str
    template: str | None = None
    revision: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    files: Collection[str] = ()
    attention: str | None = None
    inferred: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True)
class ServeOptions:
    """What is asked: kwargs of every request, parsers by vLLM's names, and a store for KV."""

    kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    storage: Storage = field(default_factory=Storage)


def serving(served: Served, options: ServeOptions) -> Serving:
    """The command, with warnings about the model and its renderer.

    Raises ``ValueError`` when the options of the connector do not go together.
    """
    connected = connection(options.storage)
    found = recognise(served.config, served.files)
    switched = found is not None and found.renderer.escapes and served.template is not None
    parsers = _parsers(served, options, found, switched)
    flags: list[tuple[str, FlagValue]] = []
    if served.revision is not None:
        flags.append(("--revision", served.revision))
    if switched:
        flags.append(("--tokenizer-mode", "hf"))
    if served.template is not None and (found is None or switched):
        flags.append(("--chat-template", served.template))
    if options.kwargs:
        flags.append((KWARGS_FLAG, dict(options.kwargs)))
    reasoning, tool = parsers
    if reasoning is not None:
        flags.append(("--reasoning-parser", reasoning))
    if tool is not None:
        flags += [("--enable-auto-tool-choice", True), ("--tool-call-parser", tool)]
    flags.append(("--enable-prompt-tokens-details", True))
    if connected is not None:
        flags.append((CONFIG_FLAG, connected.config))
    plan = Serving(
        served.model,
        tuple(flags),
        warnings=tuple(_warnings(served, options, found, switched)),
        notes=tuple(_notes(reasoning, options)),
        parsers=parsers,
        renderer=found.renderer.mode if found and not switched else None,
    )
    return plan if connected is None else _connected(plan, connected)


def checked(plan: Serving, report: Report, patch: tuple[str, ...]) -> Serving:
    """The command with what the check of its template has found.

    ``patch`` is the command that repairs the template.
    """
    found = tuple(caveats.of_check(report, patch))
    return replace(plan, warnings=(*found, *plan.warnings), verdict=report.verdict)


def _parsers(
    served: Served, options: ServeOptions, found: Recognised | None, switched: bool
) -> tuple[str | None, str | None]:
    """The reasoning and the tool parser: named by the user, the renderer's, or inferred."""
    first, second = served.inferred
    if found is not None:
        reasoning, tool = found.renderer.parsers
        # A template that is not rendered may be an old one: the renderer's own parsers first.
        first, second = (
            (first or reasoning, second or tool)
            if switched
            else (reasoning or first, tool or second)
        )
    asked = (options.reasoning_parser, options.tool_call_parser)
    first, second = (
        None if wanted == NO_PARSER else wanted or own
        for wanted, own in zip(asked, (first, second), strict=True)
    )
    return _VLLM_NAMES.get(first or "", first), _VLLM_NAMES.get(second or "", second)


def _warnings(
    served: Served, options: ServeOptions, found: Recognised | None, switched: bool
) -> Iterator[Warned]:
    if found is not None:
        given = served.template is not None
        yield from caveats.of_renderer(
            found, options.kwargs, template_given=given, switched=switched
        )
    yield from caveats.of_model(served.attention, served.config, options.storage)


def _notes(reasoning: str | None, options: ServeOptions) -> Iterator[str]:
    if reasoning is not None:
        yield (
            "a hit reaches into an answer's reasoning only if the client sends the reasoning back "
            "with the answer"
        )
    if "enable_thinking" in options.kwargs:
        yield "a request's reasoning_effort overrides enable_thinking of the server"


def _connected(plan: Serving, connected: Connection) -> Serving:
    """The command with what belongs to its connector."""
    beside = list(connected.beside)
    notes = [*connected.notes, *plan.notes]
    if connected.prefiller is not None:
        config, variables = connected.prefiller
        words = plan.with_flag(CONFIG_FLAG, config).words
        environment = {**connected.environment, **variables}
        beside.append(Beside("the prefill instances", words, environment))
        notes.append(
            "this is the decode instance: a proxy sends each request to a prefill instance first "
            "(vLLM's docs/features/mooncake_connector_usage.md)"
        )
    return replace(
        plan,
        environment=connected.environment,
        files=connected.files,
        beside=tuple(beside),
        notes=tuple(notes),
    )


def shell(words: Collection[str], environment: Mapping[str, str] | None = None) -> str:
    """Words as one line for a shell, after the variables that they need."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
    return " ".join([*variables, shlex.join(words)])
