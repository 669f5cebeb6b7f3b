"""TF205: a name that nobody supplies gets the default that it has in effect."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from templatefix.patching.contract.exam import Outcome
from templatefix.patching.edits import Edit
from templatefix.patching.fixes.ground import Case, Ground, Proposal
from templatefix.syntax import Template
from templatefix.syntax.names import outside_loads


def leave(ground: Ground, case: Case, after: Outcome) -> bool:
    """A name that is not there prints nothing, before as after."""
    return False


def proposals(ground: Ground) -> Iterator[Proposal]:
    """A default at each use of the first such name; none where it is called."""
    template = ground.subject.parsed
    name = ground.shown("TF205")[0].detail
    edits = []
    for use in outside_loads(template, name):
        default = _default(template, use)
        if default is None:
            return
        span = template.span(use)
        edits.append(Edit(span.start, span.end, default))
    words = f"`{name}`, which no server supplies, is optional: a request may still set it"
    yield Proposal(tuple(edits), words)


def _default(template: Template, use: nodes.Name) -> str | None:
    """The use with a default that does what an undefined name did, where that did not fail."""
    place = template.parents[id(use)]
    parent, field = place.parent, place.field
    if isinstance(parent, nodes.Call) and field == "node":
        return None
    if isinstance(parent, (nodes.Getattr, nodes.Getitem)) and field == "node":
        above = template.parents[id(parent)]
        if isinstance(above.parent, nodes.Call) and above.field == "node":
            return None  # the method of what nobody knows
        return f"({use.name} | default({{}}))"
    if isinstance(parent, nodes.For) and field == "iter":
        return f"{use.name} | default([])"
    return f"{use.name} | default('')"
