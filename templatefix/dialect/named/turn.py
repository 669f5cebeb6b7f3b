"""Both passes together: what a server makes of a completion, and the completion of an answer."""

from __future__ import annotations

import re
from collections.abc import Collection

from templatefix.chat.answer import Answer

from .harmony import parse_harmony, write_harmony_turn
from .reasoning import ReasoningDialect
from .schema import Tools
from .tool import ToolDialect


def parse(
    completion: str,
    reasoning: ReasoningDialect | None,
    tool: ToolDialect | None,
    *,
    opened: bool,
    thinking: bool,
    tools: Tools,
    streaming: bool = False,
    special_tokens: Collection[str] = (),
) -> Answer:
    """The answer that vLLM 0.32.0 returns for a completion without its stop token.

    ``opened``: the generation prompt printed the opening tag. ``thinking``: what
    ``reasoning.enabled(kwargs)`` says of the request. ``tools``: the request's tools; without any,
    the answer has no calls, yet an engine-based parser still takes their text out of the content.
    ``streaming``: the fields that a client puts together from a stream. ``special_tokens``: the
    texts of the tokenizer's special tokens (not of all added tokens), which an engine-based parser
    drops wherever they stand.
    """
    if _harmony(reasoning, tool):
        return parse_harmony(completion, tools=tools if tool else None, streaming=streaming)
    dropped = set(special_tokens).difference(
        reasoning.tags if reasoning else (), tool.tags if tool else ()
    )
    thought: str | None = None
    rest: str | None = completion
    if reasoning is not None:
        whole = completion
        if reasoning.engine and (thinking or not reasoning.off_is_whole) and not streaming:
            whole = _without(completion, dropped)
        thought, rest = reasoning.parse(
            whole, opened=opened, thinking=thinking, streaming=streaming
        )
        if reasoning.engine and thought:
            thought = _without(thought, dropped) or None
    engine = (reasoning is None or reasoning.engine) and (tool is None or tool.engine)
    if tool is None or not (tools or engine):
        if reasoning is not None and reasoning.unwrap and rest is not None and not tools:
            rest = reasoning.unwrap(rest)
        return Answer(thought, rest)
    # Reasoning tags in content vanish in the tool pass, too, unless nobody asked for reasoning.
    tags_are_text = reasoning is None or (not thinking and tool.tags_need_thinking)
    text = _without(rest or "", dropped) if tool.engine else rest or ""
    content, calls = tool.parse(text, tools, streaming=streaming, tags_are_text=tags_are_text)
    if not calls and not engine and tool.engine and not streaming:
        content = rest  # an older reasoning parser beside it: the text stays whole
    if not content and tools and (engine or rest is None):
        content = None
    return Answer(thought, content, calls if tools else ())


def completion(
    answer: Answer,
    reasoning: ReasoningDialect | None,
    tool: ToolDialect | None,
    *,
    opened: bool,
    stop: str,
    thinking: bool = True,
    ordinal: int = 0,
) -> str:
    """The text that a model writes for an answer, its stop token included.

    The fields are written as they stand, whitespace included; what the
    parsers drop is put back as the format usually writes it. ``ordinal``: how many calls the
    conversation had before.
    """
    if _harmony(reasoning, tool):
        return write_harmony_turn(answer) + stop
    content = answer.content or ""
    written = ""
    if reasoning is not None:
        written = reasoning.completion(answer.reasoning, opened=opened, thinking=thinking)
        if answer.content is not None or reasoning.content_close:
            content = reasoning.content_open + content + reasoning.content_close
    written += content
    if answer.tool_calls and tool is not None:
        stripped = tool.strips_content and content == content.rstrip()
        gap = tool.gap if content.strip() and stripped else ""
        written += gap + tool.completion(answer.tool_calls, ordinal)
    return written + stop


def losses(reasoning: ReasoningDialect | None, tool: ToolDialect | None) -> tuple[str, ...]:
    """What no client can replay, in words."""
    found = [*(reasoning.losses if reasoning else ()), *(tool.losses if tool else ())]
    if (reasoning is not None and reasoning.engine) or (tool is not None and tool.engine):
        found.append("the texts of special tokens, wherever they stand")
    return tuple(dict.fromkeys(found))


def _without(text: str, dropped: Collection[str]) -> str:
    longest_first = sorted(dropped, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), "", text) if dropped else text


def _harmony(reasoning: ReasoningDialect | None, tool: ToolDialect | None) -> bool:
    return (reasoning is not None and reasoning.name == "openai_gptoss") or (
        tool is not None and tool.name == "openai"
    )
