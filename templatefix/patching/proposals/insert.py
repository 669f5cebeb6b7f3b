"""Inserts: what history lacks before an answer's text, put back where it belongs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jinja2 import nodes

from templatefix.patching.edits import Edit
from templatefix.patching.proposals.scene import Scene, node_at, operator_at
from templatefix.patching.proposals.text import (
    begins,
    joined,
    literal,
    negated,
    operand,
    reasoning_between,
)
from templatefix.render.trace import Piece
from templatefix.syntax import reads_attribute


def inserts(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """Insertions of the missing text: after what printed last, or before what prints now."""
    yield from _instead(scene)
    for expression, guards in _missing(scene):
        for guard in guards:
            value = f"({expression} if {guard} else '')" if guard else f"({expression})"
            for edit in _places(scene, value):
                yield (edit,)


def _instead(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """Reasoning in place of a literal that closes the block which it belongs into."""
    here, written = scene.here_piece, scene.written
    if here is None or written is None or written.reasoning is None or here.start >= scene.at:
        return
    node = node_at(scene.template, here.span)
    variable = scene.variable(here.span)
    begin, end = written.reasoning[0] + scene.base, written.reasoning[1] + scene.base
    if variable is None or begin < here.start:
        return
    for anchor in _anchors(scene):
        if anchor < end:
            continue
        before, after = scene.stream[here.start : begin], scene.stream[end:anchor]
        generated = min(len(before), written.reasoning[0])
        for expression, guard in _with_reasoning(scene, variable, before, after, generated):
            if isinstance(node, nodes.Const) and isinstance(node.value, str):
                text = f"({expression} if {guard} else {literal(node.value)})"
                yield (Edit(here.span.start, here.span.end, text),)
            elif isinstance(node, nodes.TemplateData):
                yield from _data_instead(scene, here, f"({expression} if {guard} else ")


def _data_instead(scene: Scene, here: Piece, opening: str) -> Iterator[tuple[Edit, ...]]:
    """The same for template data: from the divergence's line on, up to where the data ends."""
    offset = _source_offset(scene, here, here.start)
    if offset is None:
        return
    printed = scene.prompt[here.start : here.end]
    text = "{{ " + f"{opening}{literal(printed)})" + " }}"
    yield (Edit(offset, offset + len(printed), text),)


def _missing(scene: Scene) -> Iterator[tuple[str, Sequence[str | None]]]:
    """Expressions for the text that the stream has and the prompt lacks, with guards to try."""
    written, at, base = scene.written, scene.at, scene.base
    if written is None or scene.here_piece is None:
        return
    variable = scene.variable(scene.here_piece.span)
    guard = scene.generation_guard
    for anchor in _anchors(scene):
        if anchor <= at:
            continue
        reasoning = written.reasoning
        if reasoning is not None and at <= base + reasoning[0] and base + reasoning[1] <= anchor:
            if variable is None:
                continue
            before = scene.stream[at : base + reasoning[0]]
            after = scene.stream[base + reasoning[1] : anchor]
            generated = min(len(before), reasoning[0])
            for expression, given in _with_reasoning(scene, variable, before, after, generated):
                yield expression, [given]
        elif reasoning is None or at >= base + reasoning[1]:
            text = scene.stream[at:anchor]
            assistant = f"{scene.field(variable, 'role')} == 'assistant'" if variable else None
            guards: list[str | None] = [guard, None, assistant]
            if guard and variable and reads_attribute(scene.template, "reasoning_content"):
                # An answer with reasoning was written in another mode, and is printed with it.
                silent = negated(scene.given(variable, "reasoning_content"))
                guards.insert(0, f"{operand(guard)} and {silent}")
            yield literal(text), guards


def _with_reasoning(
    scene: Scene, variable: str, before: str, after: str, generated: int
) -> Iterator[tuple[str, str]]:
    """Expressions for reasoning between two texts, with the condition that there is any."""
    # Several looks: brackets are quicker than dots, whatever the template has.
    field, content = f"{variable}['reasoning_content']", f"{variable}['content']"
    given = scene.guarded(variable, "reasoning_content", field)
    gap = after[len(after.rstrip("\n")) :]
    core = after[: len(after) - len(gap)]
    yield joined(reasoning_between(before, after, field, generated)), given
    if gap:
        # A parser may leave the newlines after the closing tag in the content.
        brought = begins(f"({content} or '')", gap)
        own = f"('' if {brought} else {literal(gap)})"
        yield joined([*reasoning_between(before, core, field, generated), own]), given


def _anchors(scene: Scene) -> list[int]:
    """Where the stream may go on as the prompt does: at content, calls, or the end."""
    written, base = scene.written, scene.base
    if written is None:
        return []
    places = [span[0] + base for span in (written.content, written.calls) if span is not None]
    places.append(written.stop[0] + base)
    first = min(places)
    found = [first]
    # The prompt may print the separator before the content itself.
    shown = scene.prompt[scene.at :]
    gap = len(shown) - len(shown.lstrip("\n"))
    if gap and scene.stream[:first].endswith("\n" * gap):
        found.insert(0, first - gap)
    return found


def _places(scene: Scene, value: str) -> Iterator[Edit]:
    before, here = scene.before_piece, scene.here_piece
    if before is not None and before.end == scene.at:
        yield from _after(scene, before, value)
    if here is not None and here.start < scene.at:
        yield from _within(scene, here, value)
    elif here is not None:
        yield from _before(scene, here, value)


def _after(scene: Scene, piece: Piece, value: str) -> Iterator[Edit]:
    node = node_at(scene.template, piece.span)
    if isinstance(node, nodes.TemplateData):
        yield from _into_data(scene, piece, value)
    elif node is not None:
        end = scene.template.outer_span(node).end
        yield Edit(end, end, f" {operator_at(scene.template, node)} {value}")


def _before(scene: Scene, piece: Piece, value: str) -> Iterator[Edit]:
    node = node_at(scene.template, piece.span)
    if isinstance(node, nodes.TemplateData):
        yield from _into_data(scene, piece, value)
    elif node is not None:
        start = scene.template.outer_span(node).start
        yield Edit(start, start, f"{value} {operator_at(scene.template, node)} ")


def _within(scene: Scene, piece: Piece, value: str) -> Iterator[Edit]:
    """An insertion into the middle of a literal."""
    node = node_at(scene.template, piece.span)
    if isinstance(node, nodes.TemplateData):
        yield from _into_data(scene, piece, value)
    elif isinstance(node, nodes.Const) and isinstance(node.value, str):
        cut = scene.at - piece.start
        operator = operator_at(scene.template, node)
        text = f" {operator} ".join([literal(node.value[:cut]), value, literal(node.value[cut:])])
        chained = isinstance(scene.template.parents[id(node)].parent, (nodes.Add, nodes.Concat))
        yield Edit(piece.span.start, piece.span.end, text if chained else f"({text})")


def _into_data(scene: Scene, piece: Piece, value: str) -> Iterator[Edit]:
    """An insertion into template data, where the divergence stands in it."""
    offset = _source_offset(scene, piece, scene.at)
    if offset is not None:
        yield Edit(offset, offset, "{{ " + value + " }}")


def _source_offset(scene: Scene, piece: Piece, at: int) -> int | None:
    """The place in the source of a character that template data printed."""
    printed = scene.prompt[piece.start : piece.end]
    source = scene.template.text[slice(*piece.span)]
    begin = source.find(printed)
    return None if begin < 0 else piece.span.start + begin + at - piece.start
