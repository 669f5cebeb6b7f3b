"""Where a key that a message or a tool may lack is used as if it were always there."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from jinja2 import nodes

from templatefix.syntax.conversation import find_conversation
from templatefix.syntax.guards import field_of, guards, loop_around
from templatefix.syntax.names import assigned_names
from templatefix.syntax.span import Span
from templatefix.syntax.template import Template

#: Keys of messages that the OpenAI protocol leaves to the client, and that vLLM hands on as it
#: got them. Content is never missing: vLLM makes ``""`` of None.
_OF_MESSAGES = frozenset({"name", "reasoning", "reasoning_content", "thinking"})
#: Keys of a tool's function that its author may leave out.
_OF_TOOLS = frozenset({"description"})


class Missing(NamedTuple):
    """An expression that fails where ``key`` is missing."""

    span: Span
    key: str


def unguarded_keys(template: Template) -> tuple[Missing, ...]:
    """Concatenations and method calls on what may be missing, with no test of it around."""
    conversation = find_conversation(template)
    messages = {loop.target.name for loop in conversation.loops if type(loop.target) is nodes.Name}
    tests = _Tests(template)
    found = []
    kinds = (nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Call)
    for node, parent, field in template.placed(*kinds):
        if type(node) is nodes.Name and node.name == "tools":
            if _needs_tools(template, node, parent, field) and not tests.know(node, "tools"):
                found.append(Missing(template.span(node), "tools"))
            continue
        key = field_of(node)
        if key is None or not _hurts(template, node):
            continue
        base = getattr(node, "node", None)
        of_message = key in _OF_MESSAGES and type(base) is nodes.Name and base.name in messages
        if (of_message or key in _OF_TOOLS) and not tests.know(node, key):
            found.append(Missing(template.span(node), key))
    return tuple(found)


def _hurts(template: Template, node: nodes.Node) -> bool:
    """Whether Jinja raises when the value is undefined."""
    parent = template.parents[id(node)].parent
    if type(parent) is nodes.Add:
        return True
    if type(parent) is nodes.Getattr and parent.node is node:
        call = template.parents[id(parent)].parent
        return type(call) is nodes.Call and call.node is parent
    return False


def _needs_tools(
    template: Template, node: nodes.Name, parent: nodes.Node | None, field: str
) -> bool:
    """A loop over ``tools``, which is None in a request without tools."""
    if node.ctx != "load" or type(parent) is not nodes.For or field != "iter":
        return False
    return "tools" not in assigned_names(template)


class _Tests:
    """The conditions of a template, by the keys that they have to do with."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._named: dict[int, frozenset[str]] = {}
        self._starts: dict[str, list[int]] = defaultdict(list)
        for node, _, _ in template.placed(nodes.If, nodes.CondExpr):
            if isinstance(node, (nodes.If, nodes.CondExpr)):
                for key in self._names(node.test):
                    self._starts[key].append(template.span(node).start)
        for starts in self._starts.values():
            starts.sort()

    def know(self, node: nodes.Node, key: str) -> bool:
        """Whether a condition around a node, or earlier in its loop, has to do with a key."""
        if any(key in self._names(test) for test, _ in guards(self._template, node)):
            return True
        scope = loop_around(self._template, node)
        first = 0 if scope is self._template.ast else self._template.span(scope).start
        starts = self._starts.get(key, [])
        return bisect_left(starts, first) < bisect_left(starts, self._template.span(node).start)

    def _names(self, test: nodes.Node) -> frozenset[str]:
        known = self._named.get(id(test))
        if known is None:
            known = self._named[id(test)] = frozenset(_names_in(self._template, test))
        return known


def _names_in(template: Template, test: nodes.Node) -> Iterator[str]:
    for node in (test, *template.below(test, nodes.Expr)):
        key = field_of(node)
        if key is not None:
            yield key
        elif type(node) is nodes.Name:
            yield node.name
        elif type(node) is nodes.Const and isinstance(node.value, str):
            yield node.value
