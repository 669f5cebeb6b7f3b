"""Hypothesis strategies for conversations that servers really see.

Texts are built from explicit fragments, so that nothing is read from Unicode tables, and so that
what is found shrinks to something short. A strategy is made once: to make one takes longer than to
draw from it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import TOOLS
from templatefix.chat.conversation import Message, Scenario, Turn

_WORDS = ("a", "ok", "Dune 7", "x=1")
_SPACES = (" ", "\n", "  ", "\n\n", "\t", "\u00a0")
_ODD = (
    "é",
    "漢字",
    "👩‍🚀",
    "e\u0301",
    "\u200b",
    "\u2028",
    '"',
    "\\",
    "'",
    "<",
    "}",
    "{{ x }}",
    "{% y %}",
)

#: Numbers whose spelling a server may change when it parses and prints arguments.
_NUMBERS = ("0", "1", "-1", "1.0", "1e3", "1E-2", "12345678901234567890", "0.1")


@lru_cache
def texts(markers: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Short texts; ``markers`` are pieces that imitate the markup of a template."""
    fragments = st.sampled_from((*_WORDS, *_SPACES, *_ODD, *markers))
    return st.lists(fragments, max_size=3).map("".join)


@lru_cache
def spoken(markers: tuple[str, ...], mark: str) -> st.SearchStrategy[str]:
    """Texts around ``mark``, a word that tells them from all other texts of a conversation."""
    return st.tuples(texts(markers), texts(markers)).map(mark.join)


@lru_cache
def _values() -> st.SearchStrategy[Any]:
    numbers = st.sampled_from(_NUMBERS).map(json.loads)
    leaves = st.one_of(texts(()), numbers, st.booleans(), st.none())
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=2),
            st.dictionaries(st.sampled_from(("k", "a b", "ключ", "0")), inner, max_size=2),
        ),
        max_leaves=4,
    )


@lru_cache
def _calls() -> st.SearchStrategy[tuple[ToolCall, ...]]:
    names = st.sampled_from([tool["function"]["name"] for tool in TOOLS])
    keys = st.sampled_from(("place", "days", "origin", "options"))
    # Texts above all: they are the commonest, and what filters and parsers change.
    values = st.one_of(texts(()), _values())
    arguments = st.dictionaries(keys, values, max_size=3).map(
        lambda given: json.dumps(given, ensure_ascii=False)
    )
    return st.lists(st.builds(ToolCall, names, arguments), min_size=1, max_size=2).map(tuple)


@st.composite
def conversations(draw: st.DrawFn, markers: tuple[str, ...], tools: bool, system: bool) -> Scenario:
    """Conversations of a few requests, the last of which has no answer.

    ``markers`` may stand in what users and tools say; ``tools`` and ``system`` are whether the
    template takes tool calls and a system message.
    """
    turns: list[Turn] = []
    pending: tuple[ToolCall, ...] = ()
    opening: tuple[Message, ...] = ()
    if system and draw(st.booleans()):
        opening = ({"role": "system", "content": draw(spoken(markers, "s0"))},)
    count = draw(st.integers(1, 3))
    for i in range(count):
        new = opening + _said(draw, pending, markers, i)
        opening = ()
        pending = draw(_calls()) if tools and draw(st.booleans()) else ()
        answer = spoken((), f"a{i}")
        content = draw(st.one_of(answer, st.none())) if pending else draw(answer)
        reasoning = draw(st.one_of(spoken((), f"r{i}"), st.none()))
        turns.append(Turn(new, Answer(reasoning, content, pending)))
    turns.append(Turn(_said(draw, pending, markers, count)))
    return Scenario(
        "search", tuple(turns), core=False, tools=TOOLS if tools else None, reasoning="if-thinking"
    )


def _said(
    draw: st.DrawFn, pending: tuple[ToolCall, ...], markers: tuple[str, ...], number: int
) -> tuple[Message, ...]:
    """What comes next: the results of the calls that are open, else a user message."""
    if not pending:
        return ({"role": "user", "content": draw(spoken(markers, f"q{number}"))},)
    return tuple(
        {
            "role": "tool",
            "tool_call_id": i,
            "name": call.name,
            "content": draw(spoken(markers, f"t{number}{i}")),
        }
        for i, call in enumerate(pending)
    )
