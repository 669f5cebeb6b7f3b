"""The names that a template takes from outside."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from jinja2 import TemplateAssertionError, nodes

from templatefix.syntax.code import Code, code_of
from templatefix.syntax.fault import Unparsable
from templatefix.syntax.template import Template

#: What transformers and vLLM hand over with every request, besides kwargs and special tokens.
REQUEST_NAMES = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message"}
)

#: Functions that transformers adds to Jinja's own globals.
SERVER_FUNCTIONS = frozenset({"raise_exception", "strftime_now"})

#: Tests that ask whether a name was given at all.
PRESENCE_TESTS = frozenset({"defined", "undefined", "none"})

DEFAULT_FILTERS = frozenset({"default", "d"})

#: Filters whose input must be a list or an object.
STRUCTURE_FILTERS = frozenset(
    {"items", "list", "join", "map", "select", "reject", "selectattr", "rejectattr", "dictsort"}
)


def _code(template: Template) -> Code:
    try:
        return code_of(template)
    except RecursionError:
        raise Unparsable("the template is nested too deeply") from None
    except TemplateAssertionError as fault:  # a block defined twice, for instance
        raise Unparsable(fault.message or str(fault), fault.lineno) from None


def named_kwargs(template: Template) -> frozenset[str]:
    """The undeclared names of the template: vLLM drops every kwarg that is not among them.

    Equal to ``jinja2.meta.find_undeclared_variables``, as vLLM 0.33 calls it: names that are set
    on some path only are listed, and so are ``raise_exception`` and ``strftime_now``. Raises
    :class:`Unparsable` for a template that parses and yet does not compile.
    """
    return _code(template).undeclared


def reads_messages(template: Template) -> bool:
    """Whether the template reads the conversation at all: if not, it is no chat template."""
    return "messages" in named_kwargs(template)


def looks_like_chat(template: Template) -> bool:
    """Whether a template that reads ``messages`` is one for a chat, and not a page with notices.

    Chat templates are whole by themselves, and look at who speaks or at what is said.
    """
    if template.placed(*_PAGE):
        return False
    for node, _, _ in template.placed(nodes.Getattr, nodes.Const):
        key = node.attr if type(node) is nodes.Getattr else getattr(node, "value", None)
        if key == "role" or key == "content":
            return True
    return False


#: What only pages are made with: no server of chats has other templates to load.
_PAGE = (nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport, nodes.Block)


def outside_names(template: Template) -> frozenset[str]:
    """Undeclared names that no server supplies by itself, nor as a special token."""
    return frozenset(
        name
        for name in named_kwargs(template) - REQUEST_NAMES - SERVER_FUNCTIONS
        if not name.endswith("_token")
    )


def outside_loads(template: Template, name: str) -> list[nodes.Name]:
    """Every place where a name may come from outside, in the order of the source.

    Where a macro's parameter or a loop variable hides the name it is another variable.
    """
    tracked = _code(template).outside_loads
    return [use.node for use in named(template, name) if id(use.node) in tracked]


class Use(NamedTuple):
    """A name in a template, and the node that holds it."""

    node: nodes.Name
    parent: nodes.Node | None


def named(template: Template, name: str) -> list[Use]:
    """Every place where a name is read or set, in the order of the source."""
    return _named(template).get(name, [])


@lru_cache(maxsize=8)
def _named(template: Template) -> dict[str, list[Use]]:
    found: dict[str, list[Use]] = {}
    for node, parent, _ in template.placed(nodes.Name):
        if type(node) is nodes.Name:
            found.setdefault(node.name, []).append(Use(node, parent))
    return found


def loaded_names(node: nodes.Node) -> set[str]:
    """The names that are read by a node or below it, of any tree."""
    return {
        name.name
        for name in (node, *node.find_all(nodes.Name))
        if type(name) is nodes.Name and name.ctx == "load"
    }


@lru_cache(maxsize=8)
def assigned_names(template: Template, *, parameters: bool = True) -> frozenset[str]:
    """Names that the template itself gives a value somewhere, with the ``parameters`` of macros."""
    contexts = ("store", "param") if parameters else ("store",)
    names: set[str] = set()
    kinds = (nodes.Macro, nodes.Name, nodes.Import, nodes.FromImport)
    for node, _, _ in template.placed(*kinds):
        if type(node) is nodes.Name:
            if node.ctx in contexts:
                names.add(node.name)
        elif type(node) is nodes.Macro:
            names.add(node.name)
        elif type(node) is nodes.Import:
            names.add(node.target)
        elif type(node) is nodes.FromImport:
            names.update(name if isinstance(name, str) else name[1] for name in node.names)
    return frozenset(names)


def tests_presence(template: Template, name: nodes.Name) -> bool:
    """Whether this reading of a name asks if it was given: ``is defined``, ``|default``, ..."""
    parent = template.parents[id(name)].parent
    if type(parent) is nodes.Test:
        return parent.node is name and parent.name in PRESENCE_TESTS
    if type(parent) is nodes.Filter:
        return parent.node is name and parent.name in DEFAULT_FILTERS
    return False


def is_condition(template: Template, node: nodes.Node) -> bool:
    """Whether only the truth of the node's value matters, here or where the value goes to."""
    place = template.parents[id(node)]
    while isinstance(place.parent, (nodes.And, nodes.Or)):
        place = template.parents[id(place.parent)]
    return type(place.parent) is nodes.Not or (
        place.field == "test" and isinstance(place.parent, (nodes.If, nodes.CondExpr, nodes.For))
    )
