"""Every conversation that is asked of a live server, one after the other, and what they show."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from templatefix.errors import TargetError
from templatefix.findings.verification import LiveRun, Verification
from templatefix.serving.live.drive import Cache, Conversation, ExtraBody, Manner, Rendering
from templatefix.serving.live.explain import compared_with_served, explained
from templatefix.serving.live.judge import Held
from templatefix.serving.live.script import Script, file_script, own_script
from templatefix.serving.live.server import LiveServer
from templatefix.serving.live.wire import Security, Wire, address_of

if TYPE_CHECKING:
    from templatefix.replay.run import Client
    from templatefix.source import ChatTemplate

#: vLLM's block size unless its options say otherwise.
DEFAULT_BLOCK_SIZE = 16


@dataclass(frozen=True)
class VerifyOptions:
    """What is asked of a live server.

    ``conversation`` is a document that ``api.read_conversation`` returns; without one ``turns``
    questions of our own are asked (4 unless it says otherwise). ``template`` is the text of a
    candidate, which is sent with each request of a second conversation. ``extra_body`` is merged
    into every request, and ``each_body(turn, messages)`` into single ones; a conversation's
    messages may bring an ``extra_body`` of their own. ``block_size`` None takes what the server
    says in its metrics. ``reset`` empties the server's own cache before each turn but the first,
    so that only a store can answer; ``write_back`` is whether the store holds answers too.
    ``salt`` keeps each conversation apart from what is cached already. ``seconds`` limit one
    request. ``target`` is a template with its tokenizer that renders what the server does not show.
    """

    model: str
    turns: int | None = None
    conversation: Mapping[str, Any] | None = None
    clients: tuple[Client, ...] = ("faithful",)
    streaming: bool = False
    tools: bool | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = 512
    block_size: int | None = None
    seconds: float = 120.0
    security: Security = field(default_factory=Security)
    template: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    each_body: ExtraBody | None = None
    reset: bool = False
    write_back: bool = True
    salt: bool = True
    token_ids: bool = True
    target: ChatTemplate | None = None


def verify(
    url: str,
    options: VerifyOptions,
    now: Callable[[str], None] = lambda _: None,
    twin_of: Callable[[ChatTemplate], Rendering] | None = None,
) -> Verification:
    """Drive the server at ``url``. ``now`` is told what is being done.

    ``twin_of`` makes of a target what renders as the server does; without it, that is done in this
    process. What goes wrong on the way is the verification's ``fault``. Raises ``TargetError``
    only for a URL, a key, a certificate file or a conversation that cannot be used at all, and for
    a target, which may turn out in any turn to take more than it may.
    """
    address = address_of(url)
    wire = Wire(address, options.security, options.seconds)
    server = LiveServer(wire, options.model)
    script = script_of(options)
    twins = _twins(options, twin_of)
    now(f"asking {address.shown}")
    counters = server.counters()
    stated = None if counters is None else counters.block_size
    block_size = options.block_size or stated or DEFAULT_BLOCK_SIZE
    unseen = dict(server.unseen)
    runs: list[LiveRun] = []
    helds: list[Held] = []
    for template in (None,) if options.template is None else (None, options.template):
        for client in options.clients:
            if runs and runs[-1].fault is not None:
                break
            if runs:
                counters = server.counters()
            name = "served template" if template is None else "candidate template"
            now(f"asking {address.shown}: {name}, {client} client")
            manner = Manner(
                client,
                options.max_tokens,
                options.streaming,
                options.token_ids,
                template,
                secrets.token_hex(8) if options.salt else None,
                options.extra_body,
                options.each_body,
                twins[template is not None],
            )
            cache = Cache(block_size, options.reset, options.write_back)
            conversation = Conversation(server, script, manner, cache, helds)
            run = explained(conversation.run(counters), block_size)
            helds += conversation.helds
            served = next((r for r in runs if r.client == client), None)
            runs.append(
                run if served is None or template is None else compared_with_served(run, served)
            )
    unseen |= server.unseen
    fault = next((run.fault for run in runs if run.fault is not None), None)
    return Verification(
        url=address.shown,
        model=options.model,
        block_size=block_size,
        block_size_from=("option" if options.block_size else "server" if stated else "default"),
        stated_block_size=stated,
        streaming=options.streaming,
        tools=bool(script.tools),
        reset=options.reset,
        write_back=options.write_back,
        runs=tuple(runs),
        requests=dict(wire.sent),
        unseen=(*unseen.values(), *_not_shown(runs)),
        fault=fault,
    )


def _twins(
    options: VerifyOptions, twin_of: Callable[[ChatTemplate], Rendering] | None
) -> tuple[Rendering | None, Rendering | None]:
    """What renders as the server does, with the served template and with the candidate."""
    target = options.target
    if target is None:
        return None, None
    if twin_of is None:
        from templatefix.serving.live.twin import Twin

        twin_of = Twin
    candidate = None if options.template is None else replace(target, text=options.template)
    return twin_of(target), None if candidate is None else twin_of(candidate)


def script_of(options: VerifyOptions) -> Script:
    """What will be asked. Raises ``TargetError`` where a conversation cannot be asked."""
    if options.conversation is None:
        return own_script(options.turns or 4, tools=bool(options.tools), kwargs=options.kwargs)
    try:
        return file_script(
            options.conversation, turns=options.turns, tools=options.tools, kwargs=options.kwargs
        )
    except ValueError as error:
        raise TargetError("--conversation", str(error), "see the documentation on verify") from None


def _not_shown(runs: Sequence[LiveRun]) -> list[str]:
    """What the answers did not tell."""
    turns = [turn for run in runs for turn in run.turns]
    if not turns:
        return []
    sentences = []
    if all(turn.cached is None for turn in turns):
        sentences.append(
            "cached tokens: start vLLM with --enable-prompt-tokens-details, SGLang with "
            "--enable-cache-report"
        )
    elif all(turn.local is None for turn in turns):
        sentences.append("which of the cached tokens came from the server's own cache")
    later = [turn for run in runs for turn in run.turns[1:]]
    if any(turn.reuse is not None and not turn.reuse.exact for turn in later):
        sentences.append(
            "token ids (return_token_ids; --target renders them here): where a figure is a range, "
            "it lies between the two"
        )
    return sentences
