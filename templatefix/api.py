"""The library's front door: targets in, reports out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from templatefix.chat.conversation import Scenario
from templatefix.chat.given import Malformed, scenario_of
from templatefix.check import CheckOptions, check, sha256
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault, Report
from templatefix.policy import policy_of
from templatefix.source import ChatTemplate, SourceOptions, load_each
from templatefix.source.choice import MARKERS
from templatefix.syntax import Unparsable, parse, reads_messages

__all__ = ["CheckOptions", "SourceOptions", "check_target", "read_conversation"]


def read_conversation(text: str, name: str) -> dict[str, Any]:
    """The conversation in a JSON text; ``name`` is what errors call it.

    Raises ``TargetError`` when it is no JSON or not a conversation.
    """
    try:
        conversation = json.loads(text)
        scenario_of(conversation)
    except RecursionError:
        raise TargetError(name, "the JSON is nested too deeply") from None
    except ValueError as error:
        raise TargetError(
            name, f"not a JSON conversation: {error}", 'expected {"messages": [...]}'
        ) from None
    except Malformed as malformed:
        raise TargetError(name, str(malformed), "see the README on --conversation") from None
    assert isinstance(conversation, dict)
    return conversation


def check_target(
    target: str,
    source: SourceOptions,
    options: CheckOptions,
    stdin: IO[bytes] | None = None,
    alone: bool = True,
) -> list[Report]:
    """Check every template of a target; at least one report comes back.

    ``alone``: the target was the only one named, so that not being a chat template is an error.
    What a user can cause is a report with a fault, never an exception.
    """
    reports: list[Report] = []
    scenario = scenario_of(options.conversation) if options.conversation is not None else None
    for loaded in _loaded(target, source, stdin):
        if isinstance(loaded, TargetError):
            reports.append(_failed(target, loaded, options))
        else:
            reports.append(_check_one(loaded, options, scenario, alone and _named(target, loaded)))
    return reports


def _named(target: str, loaded: ChatTemplate) -> bool:
    """Whether a target stands for this template, and was not just searched for templates."""
    directory = Path(target)
    if loaded.path is None or not directory.is_dir():
        return True
    return loaded.path.parent == directory and loaded.path.name in MARKERS


def _loaded(
    target: str, source: SourceOptions, stdin: IO[bytes] | None
) -> Iterator[ChatTemplate | TargetError]:
    try:
        yield from load_each(target, source, stdin)
    except TargetError as error:
        yield error


def _check_one(
    template: ChatTemplate, options: CheckOptions, scenario: Scenario | None, alone: bool
) -> Report:
    policy = options.policy or policy_of(template.text) or "keep-reasoning"
    try:
        if not reads_messages(parse(template.text)):
            return _no_chat_template(template, options, policy, alone)
    except Unparsable:
        pass  # the check reports it with its line
    try:
        return check(template, options, policy, scenario)
    except TargetError as error:
        return _failed(template.target, error, options, template)


def _no_chat_template(
    template: ChatTemplate, options: CheckOptions, policy: str, alone: bool
) -> Report:
    why = "not a chat template: it never reads messages"
    fault = Fault("TF901", why, "name a chat template") if alone else None
    return Report(
        template.target,
        template.display,
        template.name,
        sha256(template.text),
        None,
        True,
        options.block_size,
        policy,
        "error" if alone else "not-evaluated",
        fault,
        skipped=None if alone else why,
        source=template.text,
    )


def _failed(
    target: str,
    error: TargetError,
    options: CheckOptions,
    template: ChatTemplate | None = None,
) -> Report:
    return Report(
        target,
        error.target if template is None else template.display,
        template.name if template else None,
        sha256(template.text) if template else None,
        None,
        True,
        options.block_size,
        options.policy or "keep-reasoning",
        "error",
        Fault(error.code, error.message, error.hint),
        source=template.text if template else None,
    )
