"""What ``import templatefix`` offers: load a template, check it, repair it, replay a conversation.

All of it works in the calling process. For templates of strangers there are limits: see
:mod:`templatefix.limits` and :mod:`templatefix.worker`.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from templatefix import api
from templatefix.chat.battery import FOUR_TURNS
from templatefix.chat.given import Malformed, scenario_of
from templatefix.chat.present import Unpresentable
from templatefix.checking import prepare
from templatefix.checking.options import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.dialect.author import Unspoken
from templatefix.errors import TargetError
from templatefix.findings.outcome import Report
from templatefix.render import Crashed, Refused, SyntaxFault
from templatefix.replay.run import Client, Plan, Run, replay
from templatefix.source import ChatTemplate, SourceOptions
from templatefix.source.override import override_tokenizer
from templatefix.syntax import Unparsable

if TYPE_CHECKING:
    from templatefix.findings.repair import RepairReport

Policy = Literal["lossless", "keep-reasoning"]


class Saveable(Protocol):
    """A tokenizer object that can write its files, as those of transformers do."""

    def save_pretrained(self, save_directory: str, /) -> Any: ...


#: A directory, a ``tokenizer.json``, a hub id, or a tokenizer of transformers.
Tokenizer = str | os.PathLike[str] | Saveable


def load(
    target: str | os.PathLike[str] | Saveable,
    *,
    tokenizer: Tokenizer | None = None,
    template_name: str | None = None,
    revision: str | None = None,
    offline: bool = False,
) -> ChatTemplate:
    """The chat template of a target, with the tokenizer and the settings that stand beside it.

    ``target`` is what the command line takes (a file, a model directory, a hub id), a tokenizer of
    transformers, or the template's own text: a string with ``{{`` or ``{%`` in it. ``tokenizer``
    replaces what the target brings; without any, a tokenizer that ships with the package counts
    approximately. ``template_name`` picks one of several named templates; ``revision`` and
    ``offline`` concern the hub.

    Raises ``TargetError`` when there is no such template, or several.

    >>> from templatefix import load
    >>> template = load("{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}")
    >>> template.tokenizer is None
    True
    """
    given = _place(tokenizer) if tokenizer is not None else None
    source = SourceOptions(
        revision=revision, offline=offline, template_name=template_name, tokenizer=given
    )
    if isinstance(target, str) and ("{{" in target or "{%" in target):
        text = ChatTemplate("<text>", "<text>", target)
        if given is None:
            return text
        found = override_tokenizer(given, source)
        return replace(
            text,
            special_tokens=found.special_tokens,
            stop_token_ids=found.stop_token_ids,
            tokenizer=found.tokenizer,
        )
    return api.the_template(_place(target), source)


def check(
    template: ChatTemplate | Tokenizer,
    *,
    policy: Policy | None = None,
    kwargs: Mapping[str, Any] | None = None,
    conversation: Mapping[str, Any] | None = None,
    block_size: int = 16,
    reasoning_parser: str | None = None,
    tool_call_parser: str | None = None,
    max_examples: int = 20,
    seed: int = 0,
) -> Report:
    """What a server loses with a template: its verdict, runs turn by turn, and findings.

    ``template`` is what :func:`load` returns or takes. ``policy`` is the one that a patched file
    names, else ``keep-reasoning``. ``kwargs`` are the ``chat_template_kwargs`` of every request
    (all modes of the template without), ``conversation`` an object ``{"messages": [...]}`` to be
    replayed in place of the battery. Figures are tokens, for cache blocks of ``block_size`` tokens.
    The parsers have vLLM's names. The search for a conversation that breaks elsewhere tries
    ``max_examples`` (none with 0), the same ones for the same ``seed``.

    Raises ``TargetError`` when there is no such template; what else is wrong is in the report, as a
    finding or, where there is no verdict, as its ``fault``.

    >>> import templatefix
    >>> trims = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}"
    >>> templatefix.check(trims, max_examples=0).verdict
    'preserving'
    """
    options = CheckOptions(
        block_size=block_size,
        policy=policy,
        kwargs=kwargs,
        conversation=_read(conversation),
        reasoning_parser=reasoning_parser,
        tool_call_parser=tool_call_parser,
        max_examples=max_examples,
        seed=seed,
    )
    return api.check_template(_loaded(template), options)


def patch(
    template: ChatTemplate | Tokenizer,
    *,
    policy: Policy = "lossless",
    kwargs: Mapping[str, Any] | None = None,
    fix: Sequence[str] = (),
    block_size: int = 16,
    reasoning_parser: str | None = None,
    tool_call_parser: str | None = None,
    max_examples: int = 60,
    seed: int = 0,
) -> RepairReport:
    """The smallest repair that is proven to work; nothing is written.

    ``text`` of the result is the template to serve: the original's own where nothing breaks within
    the policy's scope, None where nothing could be repaired. ``fix`` are codes of TF2xx to be
    mended as well. See :func:`check` for the other arguments.

    Raises ``TargetError``.
    """
    from templatefix.patching.repair import PatchOptions

    options = PatchOptions(
        policy=policy,
        kwargs=kwargs,
        block_size=block_size,
        max_examples=max_examples,
        seed=seed,
        reasoning_parser=reasoning_parser,
        tool_call_parser=tool_call_parser,
        fix=tuple(fix),
    )
    return api.patch_template(_loaded(template), options)


def simulate(
    template: ChatTemplate | Tokenizer,
    conversation: Mapping[str, Any] | None = None,
    *,
    served: ChatTemplate | Tokenizer | None = None,
    kwargs: Mapping[str, Any] | None = None,
    client: Client = "faithful",
    block_size: int = 16,
    reasoning_parser: str | None = None,
    tool_call_parser: str | None = None,
) -> Run:
    """One conversation, request by request: prompts and streams as text and token ids.

    ``comparisons`` of the result hold every prompt against the stream before it: ``reuse`` is their
    common prefix, ``hit`` what a prefix cache of ``block_size`` finds, ``ideal`` what it could
    find, all in tokens. ``conversation`` is an object ``{"messages": [...]}``, by default a chat of
    four turns in which the model reasons where its mode does; answers may bring the
    ``completion`` or ``completion_token_ids`` that were generated. With ``served``, that template
    renders the prompts, while ``template`` says what the model writes: a patched one, say.

    Raises ``TargetError`` when a target cannot be used or the conversation cannot be rendered.

    >>> import templatefix
    >>> turns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    >>> run = templatefix.simulate(turns + "{% if add_generation_prompt %}<assistant>{% endif %}")
    >>> run.preserving, [comparison.lost for comparison in run.comparisons]
    (True, [0, 0, 0])
    """
    options = CheckOptions(
        block_size=block_size,
        kwargs=kwargs or {},
        conversation=_read(conversation),
        reasoning_parser=reasoning_parser,
        tool_call_parser=tool_call_parser,
    )
    loaded = _loaded(template)
    try:
        subject = prepare(loaded, options)
        server = None
        if served is not None:
            other = replace(
                _loaded(served), tokenizer=loaded.tokenizer, special_tokens=loaded.special_tokens
            )
            server = prepare(other, options).server
        (given,) = modes_of(subject, options).sweep
        plan = Plan(FOUR_TURNS, given, client)
        if conversation is not None:
            plan = Plan(scenario_of(conversation), given, client, "given")
        return replay(plan, subject.author, subject.encoder, block_size, server)
    except (Unparsable, SyntaxFault) as fault:
        raise api.not_compiling(loaded, fault) from None
    except Unspoken as unspoken:
        raise TargetError(loaded.display, unspoken.why, "give the completions") from None
    except Unpresentable as unpresentable:
        raise TargetError(loaded.display, unpresentable.what) from None
    except Refused as refused:
        words = f"refuses the conversation: {refused.message}"
        raise TargetError(loaded.display, words, "give another conversation") from None
    except Crashed as crashed:
        words = f"rendering fails: {crashed.kind}: {crashed.message}"
        raise TargetError(loaded.display, words, "mend the template") from None


def _loaded(template: ChatTemplate | Tokenizer) -> ChatTemplate:
    return template if isinstance(template, ChatTemplate) else load(template)


def _read(conversation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if conversation is None:
        return None
    try:
        scenario_of(conversation)
    except Malformed as malformed:
        raise TargetError(
            "conversation", str(malformed), "see the documentation on --conversation"
        ) from None
    return dict(conversation)


def _place(named: Tokenizer) -> str:
    """The target in the form that the command line takes."""
    if isinstance(named, str | os.PathLike):
        return os.fspath(named)
    if not hasattr(named, "save_pretrained"):
        kinds = "a path, a hub id, a template's text or a tokenizer of transformers"
        raise TypeError(f"{kinds} is wanted, not {type(named).__name__}")
    return _written(named)


def _written(tokenizer: Saveable) -> str:
    """The directory that a tokenizer's files are written to, until this process ends."""
    folder = tempfile.mkdtemp(dir=_scratch())
    tokenizer.save_pretrained(folder)
    return folder


@cache
def _scratch() -> Path:
    scratch = tempfile.TemporaryDirectory(prefix="templatefix-")
    atexit.register(scratch.cleanup)
    return Path(scratch.name)
