"""TF201: of two outputs that print the beginning-of-sequence token, one goes."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from templatefix.findings.printed import begins_twice
from templatefix.patching.contract.exam import Outcome
from templatefix.patching.edits import Edit
from templatefix.patching.fixes.ground import Case, Ground, Proposal
from templatefix.patching.proposals.scene import guard_of, node_at
from templatefix.syntax import Span, Template

_WORDS = "the beginning-of-sequence token is printed once"


def leave(ground: Ground, case: Case, after: Outcome) -> bool:
    """A prompt that begins twice loses one of the two, and nothing else."""
    bos, before = _token(ground), case.outcome.text
    if before is None or not begins_twice(before, bos):
        return False
    return after.text == before.removeprefix(bos)


def proposals(ground: Ground) -> Iterator[Proposal]:
    """Either output is taken out, or prints only where the other one does not."""
    bos = _token(ground)
    template = ground.subject.parsed
    for case in ground.requests:
        if case.outcome.text is None or not begins_twice(case.outcome.text, bos):
            continue
        one = case.input
        seen = ground.witness.watch(one.messages, one.tools, one.kwargs, one.generation_prompt)
        if seen is None:
            return
        first, second = (
            next((piece.span for piece in seen.pieces if piece.start <= at < piece.end), None)
            for at in (0, len(bos))
        )
        for span, other in ((second, first), (first, second)):
            if span is not None:
                yield from _without(template, span, bos)
                if other is not None and other != span:
                    yield from _unless(template, span, guard_of(template, other))
        return


def _token(ground: Ground) -> str:
    return ground.subject.template.special_tokens.get("bos_token") or ""


def _without(template: Template, span: Span, bos: str) -> Iterator[Proposal]:
    node = node_at(template, span)
    if isinstance(node, nodes.TemplateData) or (
        isinstance(node, nodes.Const) and node.value != bos
    ):
        at = template.text.find(bos, span.start, span.end)
        if at >= 0:
            yield Proposal((Edit(at, at + len(bos), ""),), _WORDS)
        return
    if node is None:
        return
    printed = template.print_span(node)
    if printed is not None:
        start, end = printed
        yield Proposal((Edit(start, end, ""),), _WORDS)
        line_start = template.text.rfind("\n", 0, start) + 1
        if not template.text[line_start:start].strip() and template.text[end : end + 1] == "\n":
            yield Proposal((Edit(line_start, end + 1, ""),), _WORDS)
    parent = template.parents[id(node)].parent
    if isinstance(parent, nodes.Add):
        start, end = template.outer_span(node)
        if parent.left is node:
            yield Proposal((Edit(start, template.outer_span(parent.right).start, ""),), _WORDS)
        else:
            yield Proposal((Edit(template.outer_span(parent.left).end, end, ""),), _WORDS)
    yield Proposal((Edit(*template.outer_span(node), "''"),), _WORDS)


def _unless(template: Template, span: Span, guard: str | None) -> Iterator[Proposal]:
    node = node_at(template, span)
    if guard is None or not isinstance(node, nodes.Expr):
        return
    start, end = template.outer_span(node)
    text = f"({template.text[start:end]} if not ({guard}) else '')"
    yield Proposal((Edit(start, end, text),), _WORDS)
