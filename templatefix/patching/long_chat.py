"""A chat of many turns, and what rendering it takes: counted in steps, or measured."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import TOOLS
from templatefix.chat.conversation import Message, assistant_message
from templatefix.chat.server import Server, Tools
from templatefix.findings.repair import RenderCost
from templatefix.patching.bench import Bench, Kwargs
from templatefix.render import Crashed, JinjaRenderer, Refused, Renderer, RenderRequest
from templatefix.render.trace import trace
from templatefix.syntax import reads_attribute

#: Turns of a chat that counts as long.
MANY = 100
#: How often each of the two templates renders it; the quickest counts, since whatever else the
#: machine does can only add to a rendering.
_REPEATED = 7


def long_chat(turns: int, tools: Tools) -> list[Message]:
    """So many answers and one more question; with tools every second answer is a call."""
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


def tools_shown(bench: Bench, kwargs: Kwargs) -> Iterator[Tools]:
    """The tools of the chats of a mode; the chat without any is for the default mode."""
    speaks_tools = reads_attribute(bench.subject.parsed, "tool_calls")
    if not kwargs or not speaks_tools:
        yield None
    if speaks_tools:
        yield TOOLS


def steps(
    text: str, bench: Bench, messages: Sequence[Message], tools: Tools, kwargs: Kwargs
) -> int | None:
    """Executed outputs and loop bodies in a :func:`long_chat`.

    None where the template does not render it.
    """
    counted = bench.memory.steps
    key = (text, len(messages), bool(tools), repr(kwargs))
    if key not in counted:
        counted[key] = _steps(text, bench, messages, tools, kwargs)
    return counted[key]


def _steps(
    text: str, bench: Bench, messages: Sequence[Message], tools: Tools, kwargs: Kwargs
) -> int | None:
    request = bench.subject.server.request(messages, tools, kwargs)
    try:
        traced = trace(text, request, bench.subject.template.special_tokens)
    except (Refused, Crashed):
        return None
    return traced.outputs + traced.loop_bodies


def steps_a_turn(text: str, bench: Bench) -> tuple[int, int] | None:
    """The steps of a turn under the text and under the original, at the dearer of the long chats.

    None where the original renders neither.
    """
    found = []
    for tools in tools_shown(bench, {}):
        messages = long_chat(MANY, tools)
        now = steps(text, bench, messages, tools, {})
        was = steps(bench.subject.template.text, bench, messages, tools, {})
        if now is not None and was is not None:
            found.append((round(now / MANY), round(was / MANY)))
    return max(found, default=None)


def render_cost(text: str, bench: Bench) -> RenderCost | None:
    """What a turn takes under the text, beside the original, on this machine.

    None where the original does not render a long chat.
    """
    counted = steps_a_turn(text, bench)
    if counted is None:
        return None
    served = [as_served(each, bench) for each in (text, bench.subject.template.text)]
    found = []
    for tools in tools_shown(bench, {}):
        with suppress(Refused, Crashed):
            now, was = seconds(served, bench.subject.server, MANY, tools, _REPEATED)
            found.append((now, now / was))
    taken, ratio = max(found)
    return RenderCost(MANY, *counted, round(1000 * taken / MANY, 3), round(ratio, 1))


def as_served(text: str, bench: Bench) -> JinjaRenderer:
    """What renders a text as a server does, as fast and no faster."""
    return JinjaRenderer(text, bench.subject.template.special_tokens, as_served=True)


def seconds(
    renderers: Sequence[Renderer], server: Server, turns: int, tools: Tools, runs: int
) -> list[float]:
    """The quickest of ``runs`` renderings of a long chat by each of the renderers, in seconds.

    They render in turns, so that what else the machine does hits them alike. Raises
    :class:`Refused` and :class:`Crashed` as they do.
    """
    request = server.request(long_chat(turns, tools), tools, {})
    rounds = [[_seconds(renderer, request) for renderer in renderers] for _ in range(runs)]
    return [min(each) for each in zip(*rounds, strict=True)]


def _seconds(renderer: Renderer, request: RenderRequest) -> float:
    """What one rendering takes, by a clock that is never too coarse for it."""
    begun = time.perf_counter_ns()
    renderer.render(request)
    # The processor's own clock stands still for milliseconds on some machines.
    return max(1, time.perf_counter_ns() - begun) / 1e9
