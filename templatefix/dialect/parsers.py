"""The server's parsers for one template: selected by the user, or inferred from its markers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.conversation import Message
from templatefix.dialect import named
from templatefix.dialect.layout import arguments_of
from templatefix.dialect.named import ReasoningDialect, ToolDialect
from templatefix.dialect.thinking import State, Tags


class Parsers:
    """What the reasoning parser and the tool parser of a server make of completions."""

    def __init__(self, reasoning: ReasoningDialect | None, tool: ToolDialect | None) -> None:
        self.reasoning = reasoning
        self.tool = tool

    @classmethod
    def inferred(cls, literals: Iterable[str], generation_prompt: str) -> Parsers:
        """The parsers that the markers of a template call for; None where nothing tells."""
        return cls(*named.infer(literals, generation_prompt))

    @property
    def tags(self) -> Tags | None:
        """The tags around reasoning in the inferred or selected dialect."""
        if self.reasoning is None or not self.reasoning.close.strip():
            return None
        return Tags(self.reasoning.open.strip(), self.reasoning.close.strip())

    def needs_block(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether text without a reasoning block would come back as reasoning."""
        if self.reasoning is None:
            return True
        return self.reasoning.needs_block and self.reasoning.enabled(kwargs)

    def around_reasoning(self, *, opened: bool) -> tuple[str, str] | None:
        """What a model writes before and after its reasoning; None for an unknown dialect."""
        if self.reasoning is None:
            return None
        spelling = self.reasoning.spelling
        before = "" if opened else spelling.before + self.reasoning.open + spelling.lead
        return before, spelling.tail + self.reasoning.close + spelling.gap

    def said(self, answer: Answer) -> str | None:
        """Content and calls as the dialects write them; None for calls in an unknown dialect."""
        if answer.tool_calls and self.tool is None:
            return None
        if self.reasoning is not None and self.reasoning.content_open:
            silent = Answer(None, answer.content, answer.tool_calls)
            return named.completion(
                silent, self.reasoning, self.tool, opened=False, stop="", thinking=False
            )
        calls = (
            self.tool.completion(answer.tool_calls, 0) if self.tool and answer.tool_calls else ""
        )
        return (answer.content or "") + calls

    @property
    def preamble(self) -> tuple[str, str] | None:
        """What stands around content beside calls, where the format gives it a message of its own.

        The header of the call's message follows.
        """
        if self.reasoning is None or not self.reasoning.preamble:
            return None
        return self.reasoning.preamble, self.reasoning.close

    def call_ids(self, calls: Sequence[ToolCall], messages: Sequence[Message]) -> tuple[str, ...]:
        """The ids that the server gives to ``calls``, which follow those in ``messages``."""
        if not calls:
            return ()
        before = sum([len(each) for message in messages if (each := message.get("tool_calls"))])
        name = self.tool.name if self.tool is not None else ""
        return tuple(_call_id(name, call.name, before + i) for i, call in enumerate(calls))

    def answer(
        self,
        completion: str,
        meant: Answer,
        *,
        state: State,
        kwargs: Mapping[str, Any],
        tools: Sequence[Message] | None,
        verbatim: bool = False,
    ) -> Answer:
        """What the client gets for a completion (its stop token left out) that meant ``meant``.

        The fields are those of the parsers; a parser that does not find the calls is taken to be
        the wrong one, and the calls come back as they were meant. The whitespace between content
        and a call belongs to neither: parsers disagree on it, and one and the same parser does
        between streaming and not. It is left in the content only when ``verbatim``. In a
        ``state`` that does not think, a server that is set up for the model splits nothing off.
        """
        if self.reasoning is None and (self.tool is None or not meant.tool_calls):
            # Without a parser the server hands on what was said, and no layout around it; but
            # for whitespace around it, which a server cannot tell from the text.
            content = meant.content
            if content and completion.strip() == content.strip():
                content = completion
            return Answer(stripped(meant).reasoning, content, _redumped(meant.tool_calls))
        parsed = self._parse(completion, meant, state, kwargs, tools)
        if _same_calls(parsed.tool_calls, meant.tool_calls):
            return parsed if verbatim else without_separator(parsed, meant)
        return Answer(parsed.reasoning, meant.content or None, _redumped(meant.tool_calls))

    def answer_to_a_cut_call(
        self,
        completion: str,
        meant: Answer,
        *,
        state: State,
        kwargs: Mapping[str, Any],
        tools: Sequence[Message] | None,
    ) -> Answer:
        """What the client gets where generation ended inside a call.

        That is what the parsers find: most leave such a call in the content or drop it.
        """
        return self._parse(completion, meant, state, kwargs, tools)

    def understand(
        self,
        completion: str,
        meant: Answer,
        *,
        state: State,
        kwargs: Mapping[str, Any],
        tools: Sequence[Message] | None,
    ) -> bool:
        """Whether the parsers find in a completion what it meant, but for outer whitespace."""
        parsed = self._parse(completion, meant, state, kwargs, tools)
        return (
            _same_calls(parsed.tool_calls, meant.tool_calls if self.tool else ())
            and (self.tool is None or _bare(parsed.content) == _bare(meant.content))
            and (self.reasoning is None or _bare(parsed.reasoning) == _bare(meant.reasoning))
        )

    def agree(self, received: Answer, meant: Answer) -> bool:
        """Whether an answer is what was meant, but for outer whitespace."""
        return (
            _same_calls(received.tool_calls, meant.tool_calls)
            and _bare(received.content) == _bare(meant.content)
            and _bare(received.reasoning) == _bare(meant.reasoning)
        )

    def loss(self, field: str) -> str:
        """What of a field these parsers do not hand on, in words.

        ``field`` is ``reasoning``, ``content`` or ``separator``, the whitespace before a call.
        """
        if field == "separator" and self.tool is not None:
            words = (
                f"the {self.tool.name} parser leaves the whitespace between content and a call in "
                "the content, and the template prints its own after it"
            )
            if any("stream" in each for each in self.tool.losses):
                words += "; what this parser returns differs between streaming and not"
            return words
        tells_reasoning = field == "reasoning" and self.reasoning is not None
        parser = self.reasoning if tells_reasoning else self.tool or self.reasoning
        if parser is None:
            return f"the server changes the {field} before the client gets it"
        losses = named.losses(
            self.reasoning if tells_reasoning else None, None if tells_reasoning else self.tool
        )
        known = "; ".join(losses) or "outer whitespace"
        return (
            f"the {parser.name} parser does not hand on the {field} as written; it loses: {known}"
        )

    def _parse(
        self,
        completion: str,
        meant: Answer,
        state: State,
        kwargs: Mapping[str, Any],
        tools: Sequence[Message] | None,
    ) -> Answer:
        parsed = named.parse(
            completion,
            self.reasoning,
            self.tool if meant.tool_calls else None,
            opened=state == "opened",
            thinking=self._splits(state, kwargs),
            tools=tools,
        )
        if self.reasoning is None:
            return Answer(meant.reasoning, parsed.content, parsed.tool_calls)
        return parsed

    def _splits(self, state: State, kwargs: Mapping[str, Any]) -> bool:
        if self.reasoning is None:
            return True
        return self.reasoning.enabled(kwargs) and state not in ("closed", "none")


def without_separator(parsed: Answer, meant: Answer) -> Answer:
    """The parsed fields without whitespace that the layout printed between content and call."""
    if not parsed.tool_calls or parsed.content is None:
        return parsed
    text = (meant.content or "").strip()
    at = parsed.content.rfind(text) + len(text)
    if parsed.content[at:].strip():
        return parsed
    return Answer(parsed.reasoning, parsed.content[:at] or None, parsed.tool_calls)


def _bare(text: str | None) -> str:
    return (text or "").strip()


def stripped(answer: Answer) -> Answer:
    """The fields without outer whitespace, as many servers return them."""
    reasoning = answer.reasoning.strip() if answer.reasoning is not None else None
    content = answer.content.strip() if answer.content is not None else None
    return Answer(reasoning, content, _redumped(answer.tool_calls))


def _redumped(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(call.name, json.dumps(arguments_of(call), ensure_ascii=False)) for call in calls
    )


def _same_calls(ours: Sequence[ToolCall], theirs: Sequence[ToolCall]) -> bool:
    return [(call.name, arguments_of(call)) for call in ours] == [
        (call.name, arguments_of(call)) for call in theirs
    ]


def _call_id(parser: str, function: str, ordinal: int) -> str:
    """An id as vLLM 0.32 makes it for a parser: most are random, so ours are only fixed."""
    if parser.startswith("mistral"):
        return f"{ordinal:09d}"
    if parser.startswith("kimi"):
        return f"functions.{function}:{ordinal}"
    return f"chatcmpl-tool-{ordinal:016x}"
