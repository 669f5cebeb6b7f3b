"""Which ready template fits a published one: by what they render, not by what they are called."""

from __future__ import annotations

from collections.abc import Sequence

from templatefix.checking.options import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import prepare
from templatefix.patching.bench import Bench
from templatefix.ready.shelf import Ready
from templatefix.render import Crashed, Refused, SyntaxFault
from templatefix.source.template import ChatTemplate


def serving(model_id: str, ready: Sequence[Ready]) -> tuple[Ready, ...]:
    """The ready templates whose header names a model, case aside."""
    wanted = model_id.casefold()
    return tuple(
        each for each in ready if wanted in (name.casefold() for name in each.header.serves)
    )


def fitting(template: ChatTemplate, ready: Sequence[Ready]) -> tuple[Ready, ...]:
    """The ready templates that render every first prompt as a published template does.

    First prompts are those of the battery, with and without tools, in every mode. Raises
    ``Unparsable``, ``SyntaxFault`` or ``TargetError`` where the template cannot be checked.
    """
    asked = CheckOptions()
    subject = prepare(template, asked)
    bench = Bench(subject, modes_of(subject, asked), "keep-reasoning", asked.block_size)
    return tuple(each for each in ready if bench.openings and _opens_alike(bench, each))


def _opens_alike(bench: Bench, ready: Ready) -> bool:
    try:
        server = bench.server(ready.text)
        return all(
            server.prompt(messages, tools, kwargs) == prompt
            for messages, tools, kwargs, prompt in bench.openings
        )
    except (Refused, Crashed, SyntaxFault):
        return False
