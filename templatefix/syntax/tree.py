"""The nodes of an AST in a list, for what would otherwise walk the tree again and again."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from jinja2 import nodes


@cache
def kinds_of(kind: type[nodes.Node] | tuple[type[nodes.Node], ...]) -> frozenset[type[nodes.Node]]:
    """A kind of nodes, or several, with all that are kinds of it.

    To look up a node's type among them is much quicker than ``isinstance``, for Jinja's nodes have
    a metaclass.
    """
    found: set[type[nodes.Node]] = set()
    queue = list(kind) if isinstance(kind, tuple) else [kind]
    while queue:
        each = queue.pop()
        found.add(each)
        queue += each.__subclasses__()
    return frozenset(found)


class Place(NamedTuple):
    """A node, the node that holds it, and the field in which it is held."""

    node: nodes.Node
    parent: nodes.Node | None
    field: str


class Tree:
    """The nodes below a root, each before its children, with the root itself first.

    ``ends`` has for each the index after the last node in it; ``places`` leave out the root.
    """

    def __init__(self, root: nodes.Node) -> None:
        self.nodes = [root]
        self.places: list[Place] = []
        above = [0]
        # Without recursion: chains of operators nest deeply. What is still to come, and the
        # indexes of the nodes that hold it.
        stack: list[Place] = []
        holders: list[int] = []
        _stack_children(stack, root)
        holders += [0] * len(stack)
        while stack:
            place = stack.pop()
            node = place[0]
            self.places.append(place)
            above.append(holders.pop())
            if type(node) not in LEAVES:
                _stack_children(stack, node)
                holders += [len(self.nodes)] * (len(stack) - len(holders))
            self.nodes.append(node)
        self.indexes = {id(node): index for index, node in enumerate(self.nodes)}
        self.ends = ends = list(range(1, len(self.nodes) + 1))
        for index in range(len(ends) - 1, 0, -1):
            parent = above[index]
            if ends[index] > ends[parent]:
                ends[parent] = ends[index]


#: Kinds of nodes that never hold others.
LEAVES = frozenset({nodes.Name, nodes.Const, nodes.TemplateData})


#: All kinds: nobody can add to Jinja's.
_NODES = kinds_of(nodes.Node)


def _stack_children(stack: list[Place], parent: nodes.Node) -> None:
    """Put the children of a node on a stack, the last of them first."""
    make, kinds = tuple.__new__, _NODES
    for name in reversed(parent.fields):
        value = getattr(parent, name, None)
        if type(value) in kinds:
            stack.append(make(Place, (value, parent, name)))
        elif type(value) is list:
            for each in reversed(value):
                if type(each) in kinds:
                    stack.append(make(Place, (each, parent, name)))
