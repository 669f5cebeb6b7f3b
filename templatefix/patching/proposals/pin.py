"""Pins: a condition that depends on the position made to hold where the answer was written so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import nodes

from templatefix.patching.edits import Edit
from templatefix.patching.proposals.scene import Flip, Scene, flips, within
from templatefix.patching.proposals.text import negated, operand
from templatefix.syntax import Span, Template
from templatefix.syntax.conversation import find_conversation


def pins(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """Soft pins first (a condition is widened), then hard pins (it is replaced).

    A pinned condition may lead to another that never came up for history: both are pinned then.
    """
    found = flips(scene)
    yield from _firsts(scene)
    for flip in found:
        for edit in _soft(scene, flip):
            yield (edit,)
            for inner in within(scene, flip):
                for second in _soft(scene, inner):
                    yield (edit, second)
    for flip in found:
        yield (_hard(flip),)
        for inner in within(scene, flip):
            for second in _soft(scene, inner):
                yield (_hard(flip), second)


def _soft(scene: Scene, flip: Flip) -> Iterator[Edit]:
    atom = scene.template.text[slice(*flip.span)]
    for reason in _reasons(scene, flip.span):
        # What tells it is quick to look up, unlike a loop's position or a namespace.
        text = f"{reason} or {atom}" if flip.then else f"{negated(reason)} and {atom}"
        alone = _stands_alone(scene, flip)
        yield Edit(flip.span.start, flip.span.end, text if alone else f"({text})")


def _firsts(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """What moves with the last message stays where the first prompt had it."""
    here = scene.here_piece
    if here is None or here.message is None or scene.failure.code not in ("TF107", "TF111"):
        return
    found = [
        (node, span)
        for flip in flips(scene, here.message)
        if flip.then
        for node, span in _within(scene, flip.span)
    ]
    for node, span in found:
        if isinstance(node, nodes.Getitem):
            yield (Edit(span.end - len("[-1]"), span.end, "[0]"),)
        else:
            yield (Edit(span.start, span.end, "loop.first"),)
    for node, span in found:
        yield from _before_answers(scene, node, span)


def _within(scene: Scene, outer: Span) -> Iterator[tuple[nodes.Node, Span]]:
    """The expressions for a last element in a condition, and ``loop.last``."""
    for place in scene.template.places:
        node, span = place.node, scene.template.span(place.node)
        if outer.start <= span.start and span.end <= outer.end:
            source = scene.template.source(node)
            if source == "loop.last" or (
                isinstance(node, nodes.Getitem) and source.endswith("[-1]")
            ):
                yield node, span


def _before_answers(scene: Scene, node: nodes.Node, span: Span) -> Iterator[tuple[Edit, ...]]:
    """The last element among the messages of the first prompt: those before any answer.

    It is looked for once, before the loop: in it, that would take a turn longer with every turn.
    """
    template = scene.template
    loop = find_conversation(template).loop_around(node)
    variable = scene.variable(span)
    if loop is None or variable is None:
        return
    listed = node.node if isinstance(node, nodes.Getitem) else loop.iter
    if _is_made_in(template, loop, listed):
        return
    name = "last_of_first_prompt"
    while name in template.text:
        name = "the_" + name
    first_prompt = (
        "messages[:(messages | map(attribute='role') | list + ['assistant']).index('assistant')]"
    )
    start = template.span(loop).start
    tag = re.match(r"\{%-?", template.text[start:])
    opening = (
        f"{tag[0] if tag else '{%'} set {name} = "
        f"{first_prompt} | select('in', {template.source(listed)}) | list | last %}}"
    )
    line = template.text[template.text.rfind("\n", 0, start) + 1 : start]
    if not line.strip():
        opening += "\n" + line
    text = name if isinstance(node, nodes.Getitem) else f"({variable} == {name})"
    yield Edit(start, start, opening), Edit(span.start, span.end, text)


def _is_made_in(template: Template, loop: nodes.For, expression: nodes.Node) -> bool:
    """Whether what an expression reads is set in a loop."""
    found = template.below(expression, nodes.Name)
    read = {expression.name} if isinstance(expression, nodes.Name) else {n.name for n in found}
    made = {name.name for name in template.below(loop, nodes.Name) if name.ctx == "store"}
    return bool(read & made)


def _hard(flip: Flip) -> Edit:
    return Edit(flip.span.start, flip.span.end, "true" if flip.then else "false")


def _reasons(scene: Scene, span: Span) -> Iterator[str]:
    """What tells, of a past answer, that it was written so."""
    variable = scene.variable(span) or _variable_nearby(scene)
    reasoned = bool(scene.answered.answer and scene.answered.answer.reasoning)
    if variable is not None and reasoned:
        yield from scene.held(variable, "reasoning_content", span)
        yield scene.given(variable, "reasoning_content", span)
    if not reasoned and scene.generation_guard is not None:
        yield operand(scene.generation_guard)
    if variable is not None:
        yield f"{scene.field(variable, 'role')} == 'assistant'"


def _stands_alone(scene: Scene, flip: Flip) -> bool:
    """Whether a condition needs no parentheses when it is widened: in an ``if``, or in a chain of
    what it is widened with."""
    chain = nodes.Or if flip.then else nodes.And
    return any(
        isinstance(place.parent, chain)
        or (isinstance(place.parent, nodes.If) and place.field == "test")
        for place in scene.template.places
        if scene.template.outer_span(place.node) == flip.span
    )


def _variable_nearby(scene: Scene) -> str | None:
    return scene.variable(scene.here_piece.span) if scene.here_piece else None
