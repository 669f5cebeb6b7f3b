"""C7: the cost of a rendering grows with its turns, and is about what it was.

What is counted are executed outputs and loop bodies: the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import TOOLS
from templatefix.chat.conversation import Message, assistant_message
from templatefix.chat.server import Server, Tools
from templatefix.patch.bench import Kwargs
from templatefix.patch.contract.exam import Exam, given
from templatefix.patch.contract.proof import ClauseResult, Violation
from templatefix.render import Crashed, Refused
from templatefix.render.trace import trace
from templatefix.syntax import reads_attribute

#: Turns of the two conversations that are compared.
FEW, MANY = 50, 100
#: How much more twice the turns may cost, and how much more the candidate than the original.
GROWTH, PRICE = 2.1, 1.1
#: What has to be printed again takes outputs: so many for each answer are never too much, though
#: in a small template they are more than a tenth of everything.
RESTORED = 2


def check(exam: Exam) -> ClauseResult:
    """A long chat in which every second turn calls a tool, in every mode proper, and one without.

    A template whose own cost grows faster than its turns is held to that cost only.
    """
    tried = 0
    for kwargs in exam.bench.kwargs:
        for tools in _tools(exam, kwargs):
            many = long_chat(MANY, tools)
            was = steps(exam.bench.subject.template.text, exam, many, tools, kwargs)
            now = steps(exam.text, exam, many, tools, kwargs)
            if was is None or now is None:
                continue
            tried += 1
            few = long_chat(FEW, tools)
            message = _excess(exam, few, tools, kwargs, was, now)
            if message is not None:
                conversation = given(many, tools, kwargs)
                return ClauseResult("C7", False, tried, Violation("C7", message, conversation))
    return ClauseResult("C7", True, tried)


def _excess(
    exam: Exam, few: Sequence[Message], tools: Tools, kwargs: Kwargs, was: int, now: int
) -> str | None:
    """What is too much about the cost ``now`` of many turns, which ``was`` the original's."""
    half = steps(exam.text, exam, few, tools, kwargs)
    if half is not None and now > GROWTH * half:
        before = steps(exam.bench.subject.template.text, exam, few, tools, kwargs)
        if before is None or was <= GROWTH * before:
            return f"{FEW} turns take {half} steps, {MANY} turns {now}"
    if not exam.fold and now > max(PRICE * was, was + RESTORED * MANY):
        return f"{MANY} turns took {was} steps and now take {now}"
    return None


def _tools(exam: Exam, kwargs: Kwargs) -> Iterator[Tools]:
    """The tools of the chats of a mode; the chat without any is for the default mode."""
    speaks_tools = reads_attribute(exam.bench.subject.parsed, "tool_calls")
    if not kwargs or not speaks_tools:
        yield None
    if speaks_tools:
        yield TOOLS


def steps(
    text: str, exam: Exam, messages: Sequence[Message], tools: Tools, kwargs: Kwargs
) -> int | None:
    """Executed outputs and loop bodies; None where the template does not render."""
    server: Server = exam.server
    request = server.request(messages, tools, kwargs)
    try:
        traced = trace(text, request, exam.bench.subject.template.special_tokens)
    except (Refused, Crashed):
        return None
    return traced.outputs + traced.loop_bodies


def long_chat(turns: int, tools: Tools) -> list[Message]:
    """So many answers and one more question."""
    messages: list[Message] = []
    for i in range(turns):
        if tools and i % 2:
            content = f"result {i}"
            messages.append({"role": "tool", "tool_call_id": f"call{i - 1:05}", "content": content})
        else:
            messages.append({"role": "user", "content": f"question {i}"})
        calls: tuple[ToolCall, ...] = ()
        if tools and not i % 2:
            calls = (ToolCall("get_forecast", json.dumps({"place": f"place {i}"})),)
        answer = Answer(f"thought {i}", None if calls else f"answer {i}", calls)
        messages.append(assistant_message(answer, (f"call{i:05}",)))
    return [*messages, {"role": "user", "content": "and now?"}]
