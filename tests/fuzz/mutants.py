"""Inputs made from good ones by a few cuts, copies and insertions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

from hypothesis import reject
from hypothesis import strategies as st
from jinja2 import nodes

from templatefix.ready.shelf import shelf
from templatefix.syntax import Span, Template, Unparsable, parse
from tests.corpus import corpus_entries
from tests.example import EXAMPLE

#: What a template's text is cut up with: halves of tags, words that matter to us, odd characters.
_SPLINTERS = (
    *("{{", "}}", "{%", "%}", "{#", "#}", "{%-", "-%}", "{{-", "-}}", "'", '"', "\\", "(", ")"),
    *("{% if loop.last %}", "{% else %}", "{% endif %}", "{% for m in messages %}"),
    *("{% raw %}", "{% endraw %}", "{% generation %}", "{% endgeneration %}", "{% break %}"),
    *("{% set x = messages %}", "{% macro f(a) %}", "{% endmacro %}", "{% call f(1) %}"),
    *(" | trim", " | tojson", ".strip()", "[:-1]", "[::-1]", " is defined", " if x", " ~ "),
    *("messages", "tools", "add_generation_prompt", "enable_thinking", "loop.index0"),
    *("{# templatefix: ignore[TF102] #}", "{# templatefix: ignore-file[TF104] x #}", "<think>"),
    *("\r\n", "\r", "\u2028", "\x00", "\ud800", "\ufeff", "\x1b[31m", "\u202e", "😀", "e\u0301"),
)


@cache
def templates() -> tuple[str, ...]:
    """Good templates: the example, the ready ones and, where it is there, the corpus."""
    own = [(EXAMPLE / "chat_template.jinja").read_text("utf-8")]
    return (*own, *(each.text for each in shelf()), *(each.text for each in corpus_entries()))


def broken(seeds: Sequence[str], splinters: Sequence[str] = _SPLINTERS) -> st.SearchStrategy[str]:
    """Texts of ``seeds`` after up to eight edits; few of them are still what they were."""
    edit = st.tuples(
        st.sampled_from(("insert", "cut", "repeat", "graft")),
        st.floats(0, 1),
        st.integers(0, 60),
        st.sampled_from(splinters) | st.text(max_size=3),
        st.sampled_from(seeds),
    )
    return st.builds(_edited, st.sampled_from(seeds), st.lists(edit, max_size=8))


def _edited(text: str, edits: list[tuple[str, float, int, str, str]]) -> str:
    for kind, where, length, splinter, other in edits:
        at = int(where * len(text))
        if kind == "insert":
            text = text[:at] + splinter + text[at:]
        elif kind == "cut":
            text = text[:at] + text[at + length :]
        elif kind == "repeat":
            text = text[:at] + text[at : at + length] * 2 + text[at + length :]
        else:
            begin = int(where * len(other))
            text = text[:at] + other[begin : begin + length] + text[at:]
    return text


@st.composite
def sound(draw: st.DrawFn, seeds: Sequence[str]) -> str:
    """Templates that still compile: an expression is put in another's place, filtered or negated,
    or a statement or a print is left out, up to three times."""
    text = seeds[draw(st.integers(0, len(seeds) - 1))]
    for _ in range(draw(st.integers(1, 3))):
        template = _parsed(text)
        spots = _spots(template)
        if not spots:  # nothing is left
            break
        start, end, kind = draw(st.sampled_from(spots))
        if kind == "whole":
            text = text[:start] + text[end:]
            continue
        other_start, other_end, _ = draw(st.sampled_from([s for s in spots if s[2] != "whole"]))
        put = draw(
            st.sampled_from(
                ("({} | trim)", "(not {})", "({} ~ '')", "({} or true)", "({})", "('' ~ {})[1:]")
            )
        )
        source = (start, end) if draw(st.booleans()) else (other_start, other_end)
        text = text[:start] + put.format(template.text[slice(*source)]) + text[end:]
    _parsed(text)
    return text


def _parsed(text: str) -> Template:
    try:
        return parse(text)
    except Unparsable:
        reject()  # what was put there needs a name that is not assigned in its place


def _spots(template: Template) -> list[tuple[int, int, str]]:
    """Spans of expressions that are read, and of statements and prints as a whole."""
    found: list[tuple[int, int, str]] = []
    for node, parent, place in template.places:
        whole: Span | None = None
        if isinstance(node, nodes.If | nodes.For | nodes.Assign) and place in ("body", "else_"):
            whole = template.span(node)
        elif isinstance(parent, nodes.Output) and isinstance(node, nodes.Expr):
            whole = template.print_span(node)
        elif isinstance(parent, nodes.If) and place == "test":
            found.append((*template.outer_span(node), "expression"))
        if whole is not None:
            found.append((*whole, "whole"))
        if isinstance(parent, nodes.Output | nodes.Concat | nodes.Add) and isinstance(
            node, nodes.Name | nodes.Getattr | nodes.Getitem | nodes.Filter | nodes.Const
        ):
            found.append((*template.outer_span(node), "expression"))
    return found


def mutilated_json(good: object) -> st.SearchStrategy[bytes]:
    """The text of a good JSON value after a few edits."""
    splinters = ("null", "1e999", "[", "{", '"', ",", ":", "\\ud800", "-", "9" * 400, "NaN", "\x00")
    texts = broken((json.dumps(good), json.dumps(good, indent=1)), splinters)
    return texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
