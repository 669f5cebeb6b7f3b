"""The runs of a check: planned, made, or set aside with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from templatefix.chat.conversation import Scenario
from templatefix.chat.present import Unpresentable
from templatefix.checking.notes import Notes, note, what
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject, refuses_system
from templatefix.dialect.author import Unspoken
from templatefix.findings.printed import begins_twice, lost
from templatefix.limits import Scene
from templatefix.render import Crashed, OverLimit, Refused
from templatefix.replay.modes import DOCUMENTED, Modes, Setting, discover
from templatefix.replay.run import Plan, Run, replay
from templatefix.replay.sweep import plan, without_system
from templatefix.syntax import kwargs, named_kwargs

#: Parameters of transformers' own function, which vLLM lets through whatever the template names.
_BASE_PARAMETERS = frozenset(
    {"tools", "documents", "add_generation_prompt", "continue_final_message"}
)


def modes_of(subject: Subject, options: CheckOptions) -> Modes:
    if options.kwargs is not None or options.conversation is not None:
        given = dict(options.kwargs or {})
        if options.conversation is not None:
            given = {**(options.conversation.get("chat_template_kwargs") or {}), **given}
        given = handed_on(given, subject)
        return Modes((given,), tuple(Setting(name, value, "mode") for name, value in given.items()))
    if not subject.template.text:
        return discover(subject.server, DOCUMENTED, several_names=True)
    candidates = kwargs(subject.parsed, subject.template.special_tokens)
    return discover(subject.server, [(kwarg.name, kwarg.values) for kwarg in candidates])


def handed_on(given: Mapping[str, Any], subject: Subject) -> dict[str, Any]:
    """The kwargs of a request that vLLM hands to this template: it drops those it does not name."""
    if not subject.template.text:
        return dict(given)  # what renders in its place sees them all
    known = named_kwargs(subject.parsed) | _BASE_PARAMETERS
    return {name: value for name, value in given.items() if name in known}


def plans(
    subject: Subject,
    modes: Modes,
    options: CheckOptions,
    scenario: Scenario | None,
    notes: Notes,
) -> Iterable[Plan]:
    if scenario is not None:
        yield Plan(scenario, modes.sweep[0], replay="given", requested=True)
        if any(turn.answer and turn.answer.reasoning for turn in scenario.turns):
            yield Plan(
                scenario, modes.sweep[0], "reasoning-dropping", "given", core=False, requested=True
            )
        return
    no_system = refuses_system(subject.server)
    for one in plan(modes):
        if one.scenario.tools and not subject.speaks_tools:
            notes.skip(one.scenario.name, subject.without_tools)
            continue
        if no_system and one.scenario.name != "plain-chat":
            one = replace(one, scenario=without_system(one.scenario))
        yield one


def make_run(one: Plan, subject: Subject, block_size: int, notes: Notes) -> None:
    """Make a run, or say why it cannot be made."""
    try:
        with Scene(one.scenario.name):
            run = replay(one, subject.author, subject.encoder, block_size, made=notes.made)
    except Unspoken as unspoken:
        notes.skip(what(one), unspoken.why)
    except Unpresentable as unpresentable:
        notes.skip(what(one), unpresentable.what)
    except Refused as refused:
        notes.skip(one.scenario.name, f"the template refuses it: {refused.message}")
        note(notes, one, "TF206", refused.message)
    except OverLimit as over:
        # The finding is made of what the limits have noted: other renderings hit them, too.
        notes.skip(one.scenario.name, over.message)
    except Crashed as crashed:
        notes.skip(one.scenario.name, f"rendering fails: {crashed.kind}: {crashed.message}")
        note(notes, one, "TF203", f"{crashed.kind}: {crashed.message}", crashed.line)
    else:
        if not _same_as_another(run, notes.runs):
            notes.runs.append(run)
        _look_for_loss(run, subject, notes)


def _same_as_another(run: Run, runs: Sequence[Run]) -> bool:
    """Whether another client or replay form has sent the very same requests."""
    if run.plan.client == "faithful" and run.plan.replay in ("raw", "given"):
        return False
    prompts = [request.prompt for request in run.requests]
    return any(
        other.plan.scenario.name == run.plan.scenario.name
        and other.plan.kwargs == run.plan.kwargs
        and other.plan.client == run.plan.client
        and [request.prompt for request in other.requests] == prompts
        for other in runs
    )


def _look_for_loss(run: Run, subject: Subject, notes: Notes) -> None:
    """TF202 and TF201 for the last prompt of a faithful run."""
    if run.plan.client != "faithful" or run.plan.replay not in ("raw", "given"):
        return
    last = run.requests[-1]
    if begins_twice(last.prompt, subject.template.special_tokens.get("bos_token")):
        note(notes, run.plan, "TF201", "")
    if run.plan.core:
        found = lost(last.messages, last.prompt)
        if found is not None:
            note(notes, run.plan, "TF202", found[1])
