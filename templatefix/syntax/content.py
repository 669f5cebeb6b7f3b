"""Whether vLLM hands message contents to a template as texts or as lists of parts.

vLLM's ``--chat-template-content-format auto`` looks at the template (0.33.0, ``renderers/hf.py``):
a loop over a message's content means lists. It goes by names and not by scopes, and what surprises
it counts as text; both are reproduced here, for a template sees what vLLM decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, TypeVar

from jinja2 import nodes

from templatefix.syntax.template import Template

ContentFormat = Literal["string", "openai"]

N = TypeVar("N", bound=nodes.Node)


class _NoPlainName(Exception):
    """vLLM expects a plain name here, stops with an error and falls back to texts."""


@lru_cache(maxsize=8)
def content_format(template: Template) -> ContentFormat:
    """``"openai"`` for lists of parts, ``"string"`` for texts."""
    try:
        return "openai" if _loops_over_content(template) else "string"
    except _NoPlainName:
        return "string"


def _loops_over_content(template: Template) -> bool:
    # vLLM walks the tree with Jinja's search; for statements that is the order of the source.
    loops = _all(template, nodes.For)
    messages = _message_names(_all(template, nodes.Assign), loops)
    by_macro = _macro_loops(template, messages)
    for loop in loops:
        name = loop.iter.name if type(loop.iter) is nodes.Name else None
        in_macro = id(loop) in by_macro
        if (
            _is_content(loop.iter, messages)
            or (name is not None and name in by_macro.get(id(loop), ()))
            or (name == "content" and not in_macro)
        ):
            _plain_name(loop.target)
            return True
    return False


def _all(template: Template, kind: type[N]) -> list[N]:
    return [place.node for place in template.placed(kind) if isinstance(place.node, kind)]


def _message_names(assignments: list[nodes.Assign], loops: list[nodes.For]) -> frozenset[str]:
    """The variables of the loops over the messages, or over a filtered or sliced copy."""
    conversations = ["messages"]
    for conversation in conversations:  # grows while it is walked
        for assignment in assignments:
            if _is_plain(assignment.node, conversation):
                name = _plain_name(assignment.target)
                if name not in conversations:
                    conversations.append(name)
    return frozenset(
        _plain_name(loop.target)
        for loop in loops
        if any(_is_plain(loop.iter, name) for name in conversations)
    )


def _macro_loops(template: Template, messages: frozenset[str]) -> dict[int, set[str]]:
    """For each loop inside a macro, the macro's parameters that some call fills with content."""
    loops: dict[int, set[str]] = {}
    macros = _all(template, nodes.Macro)
    calls = _all(template, nodes.Call) if macros else []
    for macro in macros:
        filled = {
            parameter
            for call in calls
            if type(call.node) is nodes.Name and call.node.name == macro.name
            for parameter, argument in _arguments(macro, call)
            if _is_content(argument, messages)
        }
        for loop in template.below(macro, nodes.For):
            known = loops.setdefault(id(loop), set())
            if filled:  # of nested macros the inner one decides
                known.clear()
                known.update(filled)
    return loops


def _arguments(macro: nodes.Macro, call: nodes.Call) -> Iterator[tuple[str, nodes.Expr]]:
    names = [parameter.name for parameter in macro.args]
    yield from zip(names, call.args, strict=False)
    yield from ((pair.key, pair.value) for pair in call.kwargs if pair.key in names)


def _bare(node: nodes.Node | None) -> nodes.Node | None:
    """What is left of an expression without its filters, tests and slices."""
    while (
        type(node) is nodes.Filter
        or type(node) is nodes.Test
        or (type(node) is nodes.Getitem and type(node.arg) is nodes.Slice)
    ):
        node = node.node
    return node


def _is_plain(node: nodes.Node, name: str) -> bool:
    bare = _bare(node)
    return type(bare) is nodes.Name and bare.ctx == "load" and bare.name == name


def _is_content(node: nodes.Node, messages: frozenset[str]) -> bool:
    bare = _bare(node)
    if type(bare) is nodes.Getattr:
        read = bare.attr == "content"
    elif type(bare) is nodes.Getitem:
        read = type(bare.arg) is nodes.Const and bare.arg.value == "content"
    else:
        return False
    return read and type(bare.node) is nodes.Name and bare.node.name in messages


def _plain_name(target: nodes.Node) -> str:
    if type(target) is not nodes.Name:
        raise _NoPlainName
    return target.name
