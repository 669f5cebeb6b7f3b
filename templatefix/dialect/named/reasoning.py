"""Reasoning layouts: how a model marks its reasoning, and how a parser of vLLM splits it off.

A dialect bears the name of the vLLM ``--reasoning-parser`` that it stands for. The behaviour is
that of vLLM 0.32.0 on a whole (not streamed) completion; the tests marked ``vllm`` compare it with
the real parsers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

#: What a parser makes of a completion: reasoning, and the rest that the tool parser reads.
Split = tuple[str | None, str | None]
#: ``splitter(completion, thinking)``. The prompt plays no part: outside streaming no parser of
#: vLLM 0.32.0 looks at it, so an opening tag that the prompt printed is simply missing here.
Splitter = Callable[[str, bool], Split]
#: Whether the parser splits at all, decided from the request's chat template kwargs.
Switch = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Spelling:
    """The whitespace around a reasoning block, as a model of the format writes it."""

    lead: str  # after the opening tag
    tail: str  # before the closing tag
    gap: str  # between the closing tag and the content
    before: str = ""  # before an opening tag that the model writes itself


#: Every spelling seen in published templates; a patch that rests on markers must hold for all.
SPELLINGS = (
    Spelling("\n", "\n", "\n\n"),
    Spelling("\n", "\n", "\n"),
    Spelling("\n", "\n", ""),
    Spelling("", "", "\n"),
    Spelling("", "", ""),
)


def always(kwargs: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True)
class ReasoningDialect:
    """One reasoning layout and the parser that reads it."""

    name: str
    open: str
    close: str
    split: Splitter = field(repr=False)
    spelling: Spelling = Spelling("\n", "\n", "\n\n")
    switch: Switch = field(default=always, repr=False)
    losses: tuple[str, ...] = ()
    engine: bool = False  # built on vLLM's parser engine, which passes content on to the tool pass
    preamble: str = ""  # opens content beside calls, where that is a message of its own
    needs_block: bool = True  # a completion without a block would be taken for reasoning
    strips_tail: bool = False  # whitespace before the closing tag is lost
    strips_gap: bool = False  # newlines after the closing tag are lost
    content_open: str = ""  # what the format writes around the content
    content_close: str = ""
    streamed: Splitter | None = field(default=None, repr=False)  # where a stream differs
    unwrap: Callable[[str], str | None] | None = field(default=None, repr=False)  # ... and back

    @property
    def tags(self) -> tuple[str, ...]:
        """The parser's own markers, which are never dropped as special tokens."""
        own = self.split.interrupters if isinstance(self.split, Tagged) else ()
        return (self.open, self.close, *own)

    @property
    def off_is_whole(self) -> bool:
        """Whether a parser that is switched off hands the completion on untouched."""
        return not isinstance(self.streamed, Tagged) or self.streamed.whole_when_off

    def enabled(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether this parser splits reasoning off in a request with these kwargs."""
        return self.switch(kwargs)

    def parse(
        self, completion: str, *, opened: bool, thinking: bool, streaming: bool = False
    ) -> Split:
        """Split a completion (without its stop token) into reasoning and the rest.

        ``opened``: the generation prompt already printed the opening tag. ``thinking``: what
        :meth:`enabled` says of the request. ``streaming``: in a stream an engine-based parser
        reads no further than the end of the reasoning; only there does ``opened`` matter to a
        parser that expects content first.
        """
        if not streaming or self.streamed is None:
            return self.split(completion, thinking)
        if opened and not self.needs_block and not completion.startswith(self.open):
            completion = self.open + completion
        return self.streamed(completion, thinking)

    def completion(self, reasoning: str | None, *, opened: bool, thinking: bool = True) -> str:
        """The text that a model writes before its content.

        ``reasoning`` is written as it stands, whitespace included; where the parser drops the
        whitespace before the closing tag, the format's usual one is put back.
        """
        if reasoning is None and not opened and not (self.needs_block and thinking):
            return ""
        body = reasoning or ""
        tail = self.spelling.tail if self.strips_tail and body and body == body.rstrip() else ""
        gap = self.spelling.gap if self.strips_gap else ""
        if opened:
            return body + tail + self.close + gap
        # A parser takes whitespace before the tag for reasoning, too.
        before = self.spelling.before if body.startswith(self.spelling.before) else ""
        return before + self.open + body.removeprefix(before) + tail + self.close + gap


@dataclass(frozen=True)
class Tagged:
    """The split of vLLM's parser engine: a state machine over the tags, wherever they stand.

    ``interrupters`` are tool markers that end reasoning without a closing tag. ``reopens``: an
    opening tag in the content starts reasoning again; otherwise it is plain text there.
    """

    open: str
    close: str
    interrupters: tuple[str, ...] = ()
    reopens: bool = False
    begins_inside: bool = True
    keeps_tail: bool = False
    whole_when_off: bool = True
    stops: bool = False  # reads no further than the end of the reasoning

    def __call__(self, completion: str, thinking: bool) -> Split:
        if not thinking and self.whole_when_off:
            return None, completion
        inside = self.begins_inside and thinking
        reasoning: list[str] = []
        content: list[str] = []
        tags = (self.open, self.close, *self.interrupters)
        pieces = re.split(f"({'|'.join(map(re.escape, tags))})", completion)
        for position, piece in enumerate(pieces):
            ends = piece in self.interrupters or (piece == self.close and inside)
            if self.stops and ends:
                content += pieces[position + (piece == self.close) :]
                break
            if piece == self.close:
                inside = False  # a second closing tag is dropped
            elif piece == self.open and (inside or self.reopens):
                inside = True  # as is a second opening tag
            elif piece in self.interrupters:
                inside = False
                content.append(piece)
            else:
                (reasoning if inside else content).append(piece)
        kept = "".join(reasoning)
        return (kept if self.keeps_tail else kept.rstrip()) or None, "".join(content) or None


@dataclass(frozen=True)
class Partitioned:
    """The split of vLLM's older parsers: at the first closing tag, verbatim on both sides.

    What precedes an opening tag is dropped. Without a closing tag everything is reasoning.
    """

    open: str
    close: str

    def __call__(self, completion: str, thinking: bool) -> Split:
        if not thinking:
            return None, completion
        before, tag, after = completion.partition(self.open)
        reasoning, closed, content = (after if tag else before).partition(self.close)
        return reasoning, (content or None) if closed else None


def swapped_when_empty(split: Splitter) -> Splitter:
    """nemotron_v3 with thinking off: content that is blank changes places with the reasoning."""

    def splitter(completion: str, thinking: bool) -> Split:
        reasoning, content = split(completion, thinking)
        if not thinking and not (content or "").strip():
            return content, reasoning
        return reasoning, content

    return splitter


def first_lines_dropped(split: Splitter) -> Splitter:
    """granite_thinking_parser: newlines at the head of the content are lost."""

    def splitter(completion: str, thinking: bool) -> Split:
        reasoning, content = split(completion, thinking)
        return reasoning, (content or "").lstrip("\n") or None

    return splitter


def split_by_response_tags(completion: str, thinking: bool) -> Split:
    """ernie45: content may be wrapped in ``<response>``; what is outside the wrapper is lost."""
    reasoning, content = Partitioned("<think>", "</think>")(completion, True)
    if content:
        start, end = content.find("<response>"), content.rfind("</response>")
        if 0 <= start < end:
            content = content[start + len("<response>") : end]
    return reasoning, content or None


def split_at_first_close(completion: str, thinking: bool) -> Split:
    """step3: an opening tag that the model writes itself stays in the reasoning."""
    reasoning, closed, content = completion.partition("</think>")
    return reasoning, (content or None) if closed else None


def split_when_closed(completion: str, thinking: bool) -> Split:
    """olmo3: without a closing tag everything is content; an opening tag may be missing."""
    body, closed, content = completion.partition("</think>")
    if not closed:
        return None, completion
    return body.removeprefix("<think>") or None, content or None


_GRANITE = re.compile(
    r"Here(?:'s| is) my thought process:(.*?)Here(?:'s| is) my response:(.*)", re.DOTALL
)


def split_by_sentences(completion: str, thinking: bool) -> Split:
    """granite (3.x): two English sentences are the tags; both are needed."""
    found = _GRANITE.search(completion)
    return (found[1], found[2] or None) if found else (None, completion)


_HUNYUAN_WHOLE = re.compile(r"(?:<think>\n(.*?)\n</think>\n<answer>\n)?(.*?)\n</answer>", re.DOTALL)
_HUNYUAN_CUT = re.compile(r"<think>\n(.*?)\n</think>\n<answer>\n(.*)", re.DOTALL)


def split_by_answer_tags(completion: str, thinking: bool) -> Split:
    """hunyuan_a13b: ``<answer>`` wraps the content; the newlines belong to the tags."""
    found = _HUNYUAN_WHOLE.search(completion) or _HUNYUAN_CUT.search(completion)
    return (found[1] or None, found[2] or None) if found else (None, completion)


def split_nothing(completion: str, thinking: bool) -> Split:
    """minimax_m2_append_think: everything is content, the opening tag put back."""
    return None, "<think>" + completion


def until_end(split: Tagged) -> Tagged:
    """The same split, as it is in a stream."""
    return replace(split, stops=True)


_GEMMA = Tagged(
    "<|channel>",
    "<channel|>",
    interrupters=("<|tool_call>",),
    reopens=True,
    begins_inside=False,
    whole_when_off=False,
)


def split_by_channel(completion: str, thinking: bool) -> Split:
    """gemma4: the label ``thought`` belongs to the tag; an opening tag may be missing."""
    headless = "<|channel>" not in completion and (
        "<channel|>" in completion or completion.startswith("thought\n") or completion == "thought"
    )
    return _unlabelled(_GEMMA("<|channel>" + completion if headless else completion, thinking))


def split_by_channel_streamed(completion: str, thinking: bool) -> Split:
    """gemma4 in a stream: only the label at the very start stands in for the opening tag."""
    headless = completion.startswith("thought\n") or completion == "thought"
    text = "<|channel>" + completion if headless else completion
    return _unlabelled(until_end(_GEMMA)(text, thinking))


def _unlabelled(split: Split) -> Split:
    reasoning, content = split
    if reasoning is not None:
        reasoning = reasoning.removeprefix("thought\n")
    return None if reasoning == "thought" else reasoning or None, content
