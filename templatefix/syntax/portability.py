"""Constructs that other engines which read chat templates do not have, or do otherwise.

Measured against transformers 5: minijinja (Rust: TGI, vLLM's Rust front end), llama.cpp's own
engine, and @huggingface/jinja (JavaScript).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jinja2 import nodes

from templatefix.syntax.carried import Carried
from templatefix.syntax.guards import guards
from templatefix.syntax.span import Span
from templatefix.syntax.template import Template

MINIJINJA, LLAMA_CPP, JAVASCRIPT = "minijinja", "llama.cpp", "@huggingface/jinja"
OLD_LLAMA_CPP = "old llama.cpp"


class Construct(NamedTuple):
    """A construct as a reader would name it, where it stands, and who cannot do it."""

    name: str
    span: Span
    engines: tuple[str, ...]


def nonportable(template: Template) -> tuple[Construct, ...]:
    """Every construct that some engine cannot do, in the order of the source."""
    found = [*_of_tokens(template), *_of_dicts(template)]
    for node, _, _ in template.placed(*_NAMED):
        named = _named(node)
        if _is_dotted_number(template, node):
            found.append(Construct("a number after a dot", template.span(node), (LLAMA_CPP,)))
        if named is not None:
            found.append(Construct(named[0], _span(template, node), named[1]))
    return tuple(sorted(found, key=lambda construct: construct.span))


def _is_dotted_number(template: Template, node: nodes.Node) -> bool:
    """``parts.0``: the tree does not tell it from ``parts[0]``."""
    return (
        type(node) is nodes.Getitem
        and type(node.arg) is nodes.Const
        and isinstance(node.arg.value, int)
        and template.source(node)[-1:].isdigit()
    )


#: The kinds of nodes that :func:`_named` knows.
_NAMED = (
    nodes.CallBlock, nodes.Call, nodes.Filter, nodes.Mod, nodes.FloorDiv, nodes.Getitem,
    nodes.Break, nodes.Continue,
)  # fmt: skip


def _named(node: nodes.Node) -> tuple[str, tuple[str, ...]] | None:
    if type(node) is nodes.CallBlock and _is_generation(node):
        return "{% generation %}", (MINIJINJA,)
    if type(node) is nodes.Call:
        return _call(node)
    if type(node) is nodes.Filter:
        if node.name == "tojson" and any(pair.key == "sort_keys" for pair in node.kwargs):
            return "tojson(sort_keys)", (LLAMA_CPP,)
        if node.name == "replace" and (len(node.args) > 2 or node.kwargs):
            return "replace with a count", (LLAMA_CPP,)
    if type(node) is nodes.Mod and _is_text(node.left):
        return "formatting with %", (MINIJINJA, JAVASCRIPT)
    if type(node) is nodes.FloorDiv:
        return "//", (LLAMA_CPP,)
    if type(node) is nodes.Getitem and type(node.arg) is nodes.Slice:
        step = node.arg.step
        if type(step) is nodes.Neg or (type(step) is nodes.Const and step.value == -1):
            return "[::-1]", (OLD_LLAMA_CPP,)
    if isinstance(node, (nodes.Break, nodes.Continue)):
        return ("break" if type(node) is nodes.Break else "continue"), (OLD_LLAMA_CPP,)
    return None


def _call(node: nodes.Call) -> tuple[str, tuple[str, ...]] | None:
    if type(node.node) is nodes.Name:
        return ("dict()", (JAVASCRIPT,)) if node.node.name == "dict" else None
    if type(node.node) is not nodes.Getattr:
        return None
    method = node.node.attr
    if method in ("format", "find"):
        return f".{method}()", (JAVASCRIPT,)
    if method in ("strip", "lstrip", "rstrip") and node.args:
        return "strip() with an argument", (JAVASCRIPT,)
    if method in ("removeprefix", "removesuffix"):
        return f".{method}()", (MINIJINJA,)
    if method == "replace" and len(node.args) > 2:
        return "replace with a count", (LLAMA_CPP,)
    if method == "startswith" and node.args and type(node.args[0]) is nodes.Tuple:
        return "startswith with a tuple", (LLAMA_CPP,)
    is_loop = type(node.node.node) is nodes.Name and node.node.node.name == "loop"
    return ("loop.cycle()", (JAVASCRIPT,)) if method == "cycle" and is_loop else None


def _span(template: Template, node: nodes.Node) -> Span:
    """A node's span; of a block its first tag only."""
    span = template.span(node)
    if type(node) is nodes.CallBlock:
        end = template.text.find("%}", span.start)
        return Span(span.start, end + 2 if end >= 0 else span.end)
    return span


def _is_generation(node: nodes.CallBlock) -> bool:
    call = node.call
    return type(call) is nodes.Call and type(call.node) is nodes.ExtensionAttribute


def _is_text(node: nodes.Node) -> bool:
    return type(node) is nodes.Const and isinstance(node.value, str)


def _of_tokens(template: Template) -> Iterator[Construct]:
    """What the tree does not keep: raw blocks, and how a character of a literal is spelt."""
    if "raw" not in template.text and "\\u" not in template.text:
        return
    for kind, value, span in template.tokens("raw_begin", "string"):
        if kind == "raw_begin":
            yield Construct("{% raw %}", span, (LLAMA_CPP, JAVASCRIPT))
        elif kind == "string" and _has_unicode_escape(value):
            yield Construct("\\u in a literal", span, (LLAMA_CPP,))


def _has_unicode_escape(literal: str) -> bool:
    return "\\u" in literal.replace("\\\\", "")


def _of_dicts(template: Template) -> Iterator[Construct]:
    """``{{ tool }}`` and ``{{ call.arguments }}``: Python prints a dict as Python spells it."""
    carried = Carried(template, frozenset({"arguments"}), changed=False)
    tools = {
        place.node.target.name
        for place in template.placed(nodes.For)
        if type(place.node) is nodes.For
        and type(place.node.target) is nodes.Name
        and type(place.node.iter) is nodes.Name
        and place.node.iter.name == "tools"
    }
    for node in template.printed:
        is_dict = type(node) is nodes.Name and node.name in tools
        if not is_dict and type(node) is not nodes.CondExpr:
            is_dict = carried.field(node) is not None and not any(
                type(each) is nodes.Test
                for test, _ in guards(template, node)
                for each in (test, *template.below(test, nodes.Test))
            )
        if is_dict:
            yield Construct("printing a dict", template.span(node), (LLAMA_CPP, JAVASCRIPT))
