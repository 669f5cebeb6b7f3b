"""The texts that a template holds and the fields that it reads."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import nodes

from templatefix.syntax.template import Template

#: Filters that read an attribute whose name is a string: the keyword, or the first argument.
_ATTRIBUTE_FILTERS = frozenset({"attr", "selectattr", "rejectattr", "map", "groupby", "sort"})


#: Fields that tell how a template spells those of messages.
_FIELDS = ("role", "content", "reasoning_content", "tool_calls")


def literals(template: Template) -> tuple[str, ...]:
    """Every string constant and every piece of template data, in the order of the source."""
    found = []
    for node, _, _ in template.placed(nodes.TemplateData, nodes.Const):
        if type(node) is nodes.TemplateData:
            found.append(node.data)
        elif type(node) is nodes.Const and isinstance(node.value, str):
            found.append(node.value)
    return tuple(found)


def reads_attribute(template: Template, name: str) -> bool:
    """Whether the template reads ``.name``, ``['name']`` or ``.get('name')`` of anything."""
    return any(_reads(node, name) for node, _, _ in template.placed(*_READING))


def spelled(template: Template, variable: str, field: str) -> str:
    """A field of a message as this template spells fields: in brackets, if it does so at all.

    They are quicker: for a dot, Jinja looks for an attribute of the dictionary first.

    >>> from templatefix.syntax import parse
    >>> spelled(parse("{% for m in messages %}{{ m['content'] }}{% endfor %}"), "m", "role")
    "m['role']"
    """
    return f"{variable}['{field}']" if _in_brackets(template) else f"{variable}.{field}"


@lru_cache(maxsize=8)
def _in_brackets(template: Template) -> bool:
    brackets = template.below(template.ast, nodes.Getitem)
    return any(_is_text(node.arg, name) for node in brackets for name in _FIELDS)


#: The kinds of nodes that read a field whose name stands in them.
_READING = (nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Filter)


def _reads(node: nodes.Node, name: str) -> bool:
    if type(node) is nodes.Getattr:
        return node.attr == name
    if type(node) is nodes.Getitem:
        return _is_text(node.arg, name)
    if type(node) is nodes.Call and type(node.node) is nodes.Getattr:
        return node.node.attr == "get" and bool(node.args) and _is_text(node.args[0], name)
    if type(node) is nodes.Filter and node.name in _ATTRIBUTE_FILTERS:
        arguments = [pair.value for pair in node.kwargs if pair.key == "attribute"]
        if node.name in ("attr", "selectattr", "rejectattr", "groupby"):
            arguments += node.args[:1]
        return any(_is_text(argument, name) for argument in arguments)
    return False


def _is_text(node: nodes.Node, text: str) -> bool:
    return type(node) is nodes.Const and node.value == text
