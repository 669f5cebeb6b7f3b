"""Pins: a condition that depends on the position made to hold where the answer was written so."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from templatefix.patch.edits import Edit
from templatefix.patch.proposals.scene import Scene, flips
from templatefix.syntax import Span


def pins(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """Soft pins first (the condition is widened), then hard pins (it is replaced)."""
    found = flips(scene)
    for flip in found:
        atom = scene.template.text[slice(*flip.span)]
        for reason in _reasons(scene, flip.span):
            text = f"{atom} or {reason}" if flip.then else f"{atom} and not {reason}"
            if not _whole_test(scene, flip.span):
                text = f"({text})"
            yield (Edit(flip.span.start, flip.span.end, text),)
    for flip in found:
        yield (Edit(flip.span.start, flip.span.end, "true" if flip.then else "false"),)


def _reasons(scene: Scene, span: Span) -> Iterator[str]:
    """What tells, of a past answer, that it was written so."""
    variable = scene.variable(span) or _variable_nearby(scene)
    reasoned = bool(scene.answered.answer and scene.answered.answer.reasoning)
    if variable is not None and reasoned:
        yield f"{variable}.reasoning_content"
    if not reasoned and scene.generation_guard is not None:
        yield f"({scene.generation_guard})"
    if variable is not None:
        yield f"{variable}.role == 'assistant'"


def _whole_test(scene: Scene, span: Span) -> bool:
    """Whether a condition stands alone in its ``if``, where it needs no parentheses."""
    return any(
        isinstance(place.parent, nodes.If) and scene.template.outer_span(place.node) == span
        for place in scene.template.places
        if place.field == "test"
    )


def _variable_nearby(scene: Scene) -> str | None:
    return scene.variable(scene.here_piece.span) if scene.here_piece else None
