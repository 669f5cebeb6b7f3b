"""The nodes of an AST in a list, for what would otherwise walk the tree again and again."""

from __future__ import annotations

from typing import NamedTuple

from jinja2 import nodes


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
        # Without recursion: chains of operators nest deeply.
        stack = [(place, 0) for place in reversed(_children(root))]
        while stack:
            place, parent = stack.pop()
            index = len(self.nodes)
            self.nodes.append(place.node)
            self.places.append(place)
            above.append(parent)
            if not isinstance(place.node, _LEAVES):
                stack.extend([(child, index) for child in reversed(_children(place.node))])
        self.indexes = {id(node): index for index, node in enumerate(self.nodes)}
        self.ends = list(range(1, len(self.nodes) + 1))
        for index in range(len(self.nodes) - 1, 0, -1):
            self.ends[above[index]] = max(self.ends[above[index]], self.ends[index])


#: Kinds of nodes that never hold others.
_LEAVES = (nodes.Name, nodes.Const, nodes.TemplateData)


def _children(parent: nodes.Node) -> list[Place]:
    found: list[Place] = []
    for name in parent.fields:
        value = getattr(parent, name, None)
        if isinstance(value, nodes.Node):
            found.append(Place(value, parent, name))
        elif isinstance(value, list):
            found += [Place(each, parent, name) for each in value if isinstance(each, nodes.Node)]
    return found
