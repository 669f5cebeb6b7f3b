"""What no chat template needs: ways to Python's internals, and to other files.

Jinja's sandbox refuses most of it when it is rendered. It is told from the tree, since a branch
that no conversation reaches is never rendered, and since not every server has that sandbox.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from jinja2 import nodes

from templatefix.syntax.span import Span
from templatefix.syntax.template import Template

#: Attributes of functions, generators, coroutines, frames and tracebacks that lead to code.
_INTERNALS = frozenset(
    "mro func_globals func_code func_closure func_defaults im_func im_self im_class "
    "gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await ag_frame ag_code "
    "tb_frame tb_next f_back f_builtins f_code f_globals f_locals co_code co_consts".split()
)

#: Filters that look up an attribute by its name, as their first argument or by keyword.
_BY_ATTRIBUTE = frozenset("attr map selectattr rejectattr groupby sort unique sum min max".split())

#: A replacement field that goes from a value to an attribute or an item of it.
_FIELD_WALK = re.compile(r"\{[^{}]*[.\[][^{}]*\}")
_FORMATS = frozenset({"format", "format_map"})
_DUNDER = re.compile(r"__\w+__")


@dataclass(frozen=True)
class Probe:
    """An unsafe construct. ``kind`` tells them apart, ``words`` complete a sentence about it."""

    kind: str
    span: Span
    words: str


def probes(template: Template) -> list[Probe]:
    """Unsafe constructs, in the order of the source."""
    found = []
    for place in template.placed(*_PROBED):
        kind = _kind(place.node)
        if kind is not None:
            found.append(Probe(kind, template.span(place.node), _WORDS[kind]))
    return found


#: Kinds that may be harmless: what they come to depends on a value.
COMPUTED = frozenset({"attribute-name", "format-computed"})

_WORDS = {
    "internals": "reaches for Python's internals",
    "attribute-name": "looks up an attribute whose name is computed",
    "format-walk": "walks attributes inside of a format string",
    "format-computed": "formats with a format string that is computed",
    "other-template": "reads another template, which no server has",
}


#: The kinds of nodes that :func:`_kind` is asked about.
_PROBED = (
    nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Call, nodes.Include, nodes.Import,
    nodes.FromImport, nodes.Extends, nodes.Name, nodes.NSRef,
)  # fmt: skip


def _kind(node: nodes.Node) -> str | None:
    if type(node) is nodes.Getattr:
        if node.attr in _FORMATS and _walks(_text(node.node)):
            return "format-walk"
        return "internals" if _is_internal(node.attr) else None
    if type(node) is nodes.Getitem:
        return "internals" if _names_internals(node.arg) else None
    if type(node) is nodes.Filter:
        return _filter(node)
    if type(node) is nodes.Call:
        return _call(node)
    if type(node) is nodes.Name or type(node) is nodes.NSRef:
        return "internals" if _DUNDER.fullmatch(node.name) else None
    return "other-template"


def _filter(node: nodes.Filter) -> str | None:
    given = [*node.args[:1], *(each.value for each in node.kwargs if each.key == "attribute")]
    if node.name in _BY_ATTRIBUTE and any(map(_names_internals, given)):
        return "internals"
    if node.name == "attr" and given:
        name = _text(given[0])
        if name is None:
            return "attribute-name"
        if name in _FORMATS:
            return "format-walk" if _walks(_text(node.node)) else "format-computed"
    if node.name == "format" and _walks(_text(node.node)):
        return "format-walk"
    return None


def _call(node: nodes.Call) -> str | None:
    if not isinstance(node.node, nodes.Getattr) or node.node.attr not in _FORMATS:
        return None
    # What is formatted may be a text of a message: whoever sends it walks attributes.
    return "format-computed" if _text(node.node.node) is None else None


def _walks(text: str | None) -> bool:
    return text is not None and any(
        _is_internal(name)
        for field in _FIELD_WALK.findall(text)
        for name in re.findall(r"\w+", field)
    )


def _names_internals(node: nodes.Node) -> bool:
    """Whether a key or the name of an attribute leads to internals: ``real.__class__`` does."""
    text = _text(node)
    return text is not None and any(map(_is_internal, text.split(".")))


def _is_internal(name: str) -> bool:
    return name in _INTERNALS or _DUNDER.search(name) is not None


def _text(node: nodes.Node | None) -> str | None:
    """The text of a literal, or of literals that are put together; None for anything else."""
    parts: list[str] = []
    stack: list[nodes.Node | None] = [node]
    while stack:  # without recursion: chains of operators nest deeply
        each = stack.pop()
        if type(each) is nodes.Const:
            parts.append(str(each.value))
        elif type(each) is nodes.Concat:
            stack.extend(reversed(each.nodes))
        elif type(each) is nodes.Add:
            stack.extend((each.right, each.left))
        else:
            return None
    return "".join(parts)
