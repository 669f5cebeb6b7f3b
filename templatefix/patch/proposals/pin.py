"""Pins: a condition that depends on the position made to hold where the answer was written so."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from templatefix.patch.edits import Edit
from templatefix.patch.proposals.scene import Flip, Scene, flips, within
from templatefix.syntax import Span


def pins(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """Soft pins first (a condition is widened), then hard pins (it is replaced).

    A pinned condition may lead to another that never came up for history: both are pinned then.
    """
    found = flips(scene)
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
        text = f"{atom} or {reason}" if flip.then else f"{atom} and not {reason}"
        whole = _whole_test(scene, flip.span)
        yield Edit(flip.span.start, flip.span.end, text if whole else f"({text})")


def _hard(flip: Flip) -> Edit:
    return Edit(flip.span.start, flip.span.end, "true" if flip.then else "false")


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
