"""Where a key that a message or a tool may lack is used as if it were always there."""

from __future__ import annotations

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
    messages = {
        loop.target.name for loop in conversation.loops if isinstance(loop.target, nodes.Name)
    }
    found = []
    for node, parent, field in template.places:
        if isinstance(node, nodes.Name) and node.name == "tools":
            if _needs_tools(template, node, parent, field):
                found.append(Missing(template.span(node), "tools"))
            continue
        key = field_of(node)
        if key is None or not _hurts(template, node):
            continue
        base = getattr(node, "node", None)
        of_message = key in _OF_MESSAGES and isinstance(base, nodes.Name) and base.name in messages
        if (of_message or key in _OF_TOOLS) and not _is_tested(template, node, key):
            found.append(Missing(template.span(node), key))
    return tuple(found)


def _hurts(template: Template, node: nodes.Node) -> bool:
    """Whether Jinja raises when the value is undefined."""
    parent = template.parents[id(node)].parent
    if isinstance(parent, nodes.Add):
        return True
    if isinstance(parent, nodes.Getattr) and parent.node is node:
        call = template.parents[id(parent)].parent
        return isinstance(call, nodes.Call) and call.node is parent
    return False


def _needs_tools(
    template: Template, node: nodes.Name, parent: nodes.Node | None, field: str
) -> bool:
    """A loop over ``tools``, which is None in a request without tools."""
    if node.ctx != "load" or not isinstance(parent, nodes.For) or field != "iter":
        return False
    if "tools" in assigned_names(template):
        return False
    return not _is_tested(template, node, "tools")


def _is_tested(template: Template, node: nodes.Node, key: str) -> bool:
    """Whether a condition around the node, or earlier in its loop, has to do with the key."""
    if any(_mentions(test, key) for test, _ in guards(template, node)):
        return True
    start = template.span(node).start
    scope = loop_around(template, node)
    conditions = (
        (template.span(each).start, each.test)
        for kind in (nodes.If, nodes.CondExpr)
        for each in scope.find_all(kind)
        if isinstance(each, (nodes.If, nodes.CondExpr))
    )
    return any(at < start and _mentions(test, key) for at, test in conditions)


def _mentions(test: nodes.Node, key: str) -> bool:
    for node in (test, *test.find_all(nodes.Expr)):
        if field_of(node) == key or (isinstance(node, nodes.Const) and node.value == key):
            return True
        if isinstance(node, nodes.Name) and node.name == key:
            return True
    return False
