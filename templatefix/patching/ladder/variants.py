"""Many candidates in one compiled template, which a number tells apart.

To compile a candidate takes longer than to drive it through a few conversations, and those of one
step differ in an expression each. So every expression that one of them edits becomes a choice
between all its versions. What survives is compiled by itself before it goes any further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jinja2 import nodes

from templatefix.chat.server import Server
from templatefix.patching.bench import Bench
from templatefix.patching.edits import Edit, Overlap, apply
from templatefix.render import JinjaRenderer, RenderRequest, SyntaxFault
from templatefix.syntax import Span, Template

#: So many versions of an expression at most: each is nested in the one before, in Jinja's parser
#: and in Python's, and a long choice takes its time in every rendering.
MOST = 24

#: Where whole expressions stand that may be put in parentheses.
_FIELDS = ((nodes.Output, "nodes"), (nodes.If, "test"), (nodes.For, "iter"), (nodes.Assign, "node"))


@dataclass(frozen=True)
class _Variant:
    """One candidate of those that were compiled together."""

    renderer: JinjaRenderer
    variable: str
    number: int
    name: str = "jinja"

    def render(self, request: RenderRequest) -> str:
        kwargs = {**(request.kwargs or {}), self.variable: self.number}
        return self.renderer.render(request._replace(kwargs=kwargs))


def variants(
    bench: Bench, template: Template, proposals: Sequence[tuple[Edit, ...]]
) -> Mapping[int, Server]:
    """Servers of the edited template, by the index of the proposal.

    Only of proposals whose edits all lie within expressions.
    """
    hosts = list(_hosts(template))
    versions: dict[Span, dict[int, str]] = {}
    for number, edits in enumerate(proposals):
        for host, source in _edited(template, hosts, edits):
            versions.setdefault(host, {})[number] = source
    numbers = {number for each in versions.values() for number in each}
    if len(numbers) < 2:
        return {}
    variable = "variant"
    while variable in template.text:
        variable += "_"
    choices = [
        Edit(*host, _choice(variable, each, template.text[slice(*host)]))
        for host, each in versions.items()
    ]
    try:
        renderer = JinjaRenderer(
            apply(template.text, choices), bench.subject.template.special_tokens
        )
    except SyntaxFault:
        return {}
    server = bench.subject.server
    return {number: server.like(_Variant(renderer, variable, number)) for number in numbers}


def _hosts(template: Template) -> Iterator[Span]:
    """The whole expressions of a template, none of them within another."""
    for node, parent, field in template.places:
        printed_text = isinstance(node, nodes.TemplateData)
        if (type(parent), field) in _FIELDS and not printed_text:
            yield template.outer_span(node)


def _edited(
    template: Template, hosts: Iterable[Span], edits: Sequence[Edit]
) -> list[tuple[Span, str]]:
    """The expressions that edits change, with what becomes of them; none if one lies elsewhere."""
    within: dict[Span, list[Edit]] = {}
    for edit in edits:
        host = next((h for h in hosts if h.start <= edit.start and edit.end <= h.end), None)
        if host is None:
            return []
        moved = replace(edit, start=edit.start - host.start, end=edit.end - host.start)
        within.setdefault(host, []).append(moved)
    try:
        return [
            (host, apply(template.text[slice(*host)], changes)) for host, changes in within.items()
        ]
    except Overlap:
        return []


def _choice(variable: str, versions: Mapping[int, str], original: str) -> str:
    tests = [f"({source}) if {variable} == {number}" for number, source in versions.items()]
    return f"({' else '.join([*tests, f'({original})'])})"
