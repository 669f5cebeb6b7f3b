"""C5: nothing that was printed is lost: texts, reasoning, calls, arguments, results.

And a conversation that ends with an answer, as trainers render it, ends as the model wrote it
where it did so under the original.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache

from templatefix.chat.conversation import Message, answer_of
from templatefix.chat.server import Server, Tools
from templatefix.dialect.layout import leaves
from templatefix.findings.evidence import message_texts
from templatefix.findings.printed import lost, squeezed
from templatefix.patching.bench import Kwargs
from templatefix.patching.contract.exam import Exam, Walk, outcome, replayed
from templatefix.patching.contract.proof import ClauseResult, Violation
from templatefix.replay.run import Run

#: Texts of fewer characters than this stand in a prompt by chance: how often says nothing.
_SHORT = 4

#: The same prompts and texts come up in walk after walk.
_squeezed = lru_cache(maxsize=512)(squeezed)


def check(exam: Exam) -> ClauseResult:
    """Every prompt of every walk; the last ones also in the modes that retain more."""
    tried = 0
    for walk in exam.walks:
        tried += 1
        message = judge(exam, walk) or _retained(exam, walk)
        if message is not None:
            return ClauseResult("C5", False, tried, Violation("C5", message, replayed(walk.after)))
    return ClauseResult("C5", True, tried)


def judge(exam: Exam, walk: Walk) -> str | None:
    """What the original printed in some request of a conversation and the candidate does not."""
    for number, (before, after) in enumerate(walk.steps, start=1):
        lacking = gone(before.messages, before.prompt, after.prompt)
        if lacking is not None:
            return f"request {number} of {walk.plan.id} no longer prints {lacking}"
        twice = doubled(before.messages, before.prompt, after.prompt)
        if twice is not None:
            return f"request {number} of {walk.plan.id} prints more than once {twice}"
    wrong = _at_the_end(exam, walk)
    if wrong is not None:
        return f"{walk.plan.id} up to its last answer {wrong}"
    before, after = walk.before.requests[-1], walk.after.requests[-1]
    found = lost(after.messages, after.prompt)
    if found is not None and lost(before.messages, before.prompt) is None:
        return f"request {len(walk.after.requests)} of {walk.plan.id} loses {found[1]}"
    return None


def _retained(exam: Exam, walk: Walk) -> str | None:
    """The last prompt again, in the modes that differ from the walk's in what history keeps."""
    messages = walk.before.requests[-1].messages
    for kwargs in exam.bench.modes.sweep:
        more = {name: value for name, value in kwargs.items() if name not in walk.plan.kwargs}
        if not more or {**walk.plan.kwargs, **more} != dict(kwargs):
            continue
        if kwargs in exam.bench.kwargs:
            continue
        lacking = _between(exam, messages, walk.before.tools, kwargs)
        if lacking is not None:
            return f"with {json.dumps(dict(kwargs))}, {walk.plan.id} no longer prints {lacking}"
    return None


def _between(exam: Exam, messages: Sequence[Message], tools: Tools, kwargs: Kwargs) -> str | None:
    before = outcome(lambda: exam.original.prompt(messages, tools, kwargs)).text
    after = outcome(lambda: exam.server.prompt(messages, tools, kwargs)).text
    return None if before is None or after is None else gone(messages, before, after)


def _at_the_end(exam: Exam, walk: Walk) -> str | None:
    """What is wrong with a candidate's prompt in which the last message is the last answer."""
    messages = list(walk.before.requests[-1].messages)
    while messages and messages[-1].get("role") != "assistant":
        messages.pop()
    tools, kwargs = walk.before.tools, walk.plan.kwargs

    def shown(server: Server) -> str | None:
        return outcome(lambda: server.prompt(messages, tools, kwargs, generation_prompt=False)).text

    before, after = shown(exam.original), shown(exam.server)
    if before is None or after is None:
        return None
    twice = doubled(messages, before, after)
    if twice is not None:
        return f"prints more than once {twice}"
    if walk.plan.replay != "raw":
        return None  # the fields are not all that the model wrote
    was, now = (_written(run, len(messages) - 1) for run in (walk.before, walk.after))
    if was and before.startswith(was) and not after.startswith(now):
        return "no longer prints it as the model wrote it"
    return None


def _written(run: Run, messages: int) -> str:
    """The stream of the request with so many messages, without its stop token; "" without one."""
    for request in run.requests:
        written = request.completion.written if request.completion else None
        if len(request.messages) == messages and written is not None:
            return request.prompt + written.said
    return ""


def doubled(messages: Sequence[Message], before: str, after: str) -> str | None:
    """A text of the answers that a prompt shows more often than another, and than they have it."""
    if before == after:
        return None
    old, new = _squeezed(before), _squeezed(after)
    own = "\x00".join(_squeezed(piece) for _, piece in _pieces(messages))
    for name, piece in _pieces([each for each in messages if each.get("role") == "assistant"]):
        form = _squeezed(piece)
        if name.endswith("a call") or len(form) < _SHORT:
            continue  # the definitions of tools have these, too
        if new.count(form) > max(old.count(form), own.count(form)):
            return f"{name}: {piece[:60]!r}"
    return None


def gone(messages: Sequence[Message], before: str, after: str) -> str | None:
    """A piece of the messages that one prompt shows more often than another."""
    if before == after:
        return None
    old, new = _squeezed(before), _squeezed(after)
    for name, piece in _pieces(messages):
        forms = {_squeezed(piece), _squeezed(json.dumps(piece)[1:-1])} - {""}
        was = sum(old.count(form) for form in forms)
        now = sum(new.count(form) for form in forms)
        if now < (was if len(piece) >= _SHORT else min(was, 1)):
            return f"{name}: {piece[:60]!r}"
    return None


def _pieces(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    for message in messages:
        role = message.get("role")
        yield from ((f"a {role} message", text) for text in message_texts(message.get("content")))
        if role == "assistant":
            answer = answer_of(message)
            yield "reasoning", answer.reasoning or ""
            yield from (("the name of a call", call.name) for call in answer.tool_calls)
            yield from (("an argument of a call", leaf) for leaf in leaves(answer))
