"""C4: what was refused is refused in the same words; what rendered still renders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from templatefix.chat.conversation import assistant_message
from templatefix.chat.given import Malformed, scenario_of
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Server
from templatefix.patching.contract.exam import Exam, Outcome, Stumble, given, outcome
from templatefix.patching.contract.openings import Input, odd, openings
from templatefix.patching.contract.proof import ClauseResult, Violation
from templatefix.render import RenderRequest
from templatefix.replay.run import Plan

Render = Callable[[Server, Input], str]


def check(exam: Exam) -> ClauseResult:
    """Openings, odd inputs in every mode, and all the conversations that are replayed."""
    tried = 0
    for one, render in _inputs(exam):
        tried += 1
        try:
            before = _rendered(render, exam.original, one)
            after = _rendered(render, exam.server, one)
        except Unpresentable:
            continue
        if not _agree(before, after):
            return ClauseResult("C4", False, tried, _violation(one, before, after))
    tried += len(exam.trial.runs) + len(exam.edge_walks)
    if exam.trial.fault is not None:
        plan = exam.bench.spoken[len(exam.trial.runs)]
        return ClauseResult("C4", False, tried, stumbled(Stumble(plan, exam.trial.fault)))
    if exam.stumbles:
        return ClauseResult("C4", False, tried, stumbled(exam.stumbles[0]))
    return ClauseResult("C4", True, tried)


def stumbled(stumble: Stumble) -> Violation:
    """A conversation that the two do not agree to render."""
    return Violation("C4", stumble.message, _asked(stumble.plan))


def _asked(plan: Plan) -> Mapping[str, Any]:
    """What the client of a plan sends, as far as it is known without a server."""
    messages: list[Mapping[str, Any]] = []
    for turn in plan.scenario.turns:
        messages += turn.new_messages
        if turn.answer is not None:
            messages.append(assistant_message(turn.answer))
    return given(messages, plan.scenario.tools, plan.kwargs)


def _inputs(exam: Exam) -> Iterator[tuple[Input, Render]]:
    for kwargs in exam.bench.modes.sweep:
        yield from ((one, served) for one in openings(kwargs))
        yield from ((one, handed_on) for one in odd(kwargs))


def _rendered(render: Render, server: Server, one: Input) -> Outcome:
    return outcome(lambda: render(server, one))


def served(server: Server, one: Input) -> str:
    """As vLLM prepares it."""
    return server.prompt(
        one.messages, one.tools, one.kwargs, generation_prompt=one.generation_prompt
    )


def handed_on(server: Server, one: Input) -> str:
    """As transformers hands it on: vLLM would refuse some of these, or fill them in."""
    request = RenderRequest(one.messages, one.tools, one.generation_prompt, one.kwargs)
    return server.renderer.render(request)


def _agree(before: Outcome, after: Outcome) -> bool:
    if before.refusal is not None:
        return after.refusal == before.refusal
    # Whoever failed before may do as it likes now.
    return before.text is None or after.text is not None


def _violation(one: Input, before: Outcome, after: Outcome) -> Violation:
    message = f"the original {before}, the candidate {after}"
    conversation = given(one.messages, one.tools, one.kwargs)
    try:
        scenario_of(conversation)
    except Malformed:
        return Violation("C4", f"{message}: {conversation['messages']}")
    return Violation("C4", message, conversation)
