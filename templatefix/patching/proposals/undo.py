"""Undoing: text that history adds is left out, text that it changes is printed as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import nodes

from templatefix.findings.outline import outline
from templatefix.patching.edits import Edit
from templatefix.patching.proposals.scene import Scene, node_at, operator_at
from templatefix.patching.proposals.text import begins, ends, is_wrapped, literal, operand
from templatefix.prefix import common_prefix
from templatefix.syntax import Span

#: Characters that have to agree again for a deletion to count as one.
_RESUMES = 12

#: A variable, or a field of one.
_FIELD = re.compile(r"[\w.]+(\[('\w+'|\"\w+\"|-?\d+)\])*")

_LOSSY = frozenset("trim strip lstrip rstrip".split())


def undos(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """Deletions of surplus text, then filters taken off what they change."""
    yield from _surplus(scene)
    yield from _filters(scene)
    yield from _fields(scene)


def _surplus(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    extra = _extra(scene)
    if not extra:
        return
    for piece in (scene.here_piece, scene.before_piece):
        if piece is None:
            continue
        node = node_at(scene.template, piece.span)
        variable = scene.variable(piece.span)
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            at = node.value.rfind(extra)
            if at < 0:
                continue
            kept = node.value[:at] + node.value[at + len(extra) :]
            span = scene.template.span(node)
            for guard in _guards(scene, variable, extra):
                text = f"({literal(kept)} if {guard} else {literal(node.value)})"
                yield (Edit(span.start, span.end, text),)
            yield (Edit(span.start, span.end, literal(kept)),)
        elif isinstance(node, nodes.Expr) and extra.strip("\n") == "":
            span = scene.template.outer_span(node)
            source = scene.template.text[slice(*span)]
            stripped = f"{_chained(source)}.lstrip({literal(extra[0])})"
            yield (Edit(span.start, span.end, stripped),)


def _extra(scene: Scene) -> str:
    """What the prompt prints at the divergence before it goes on as the stream does."""
    rest = scene.stream[scene.at :]
    if not rest:
        return ""
    for length in range(1, min(200, len(scene.prompt) - scene.at)):
        resumed = scene.prompt[scene.at + length :]
        if common_prefix(resumed, rest) >= min(_RESUMES, len(rest)):
            return scene.prompt[scene.at : scene.at + length]
    return ""


def _guards(scene: Scene, variable: str | None, extra: str) -> Iterator[str]:
    if variable is None:
        return
    if extra.strip("\n") == "":
        yield begins(f"({scene.field(variable, 'content')} or '')", extra[0])
    yield scene.given(variable, "reasoning_content")
    yield from reversed([*_where(scene, variable)])


def _where(scene: Scene, variable: str) -> Iterator[str]:
    """Where a change is in place: in answers, in the mode of this one, or in answers of it."""
    answers = f"{scene.field(variable, 'role')} == 'assistant'"
    yield answers
    if scene.generation_guard is not None:
        mode = operand(scene.generation_guard)
        yield mode
        yield f"{answers} and {mode}"


def _filters(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """Lossy filters off, for answers only where the same expression prints other messages."""
    seen: set[Span] = set()
    for piece in (scene.before_piece, scene.here_piece):
        if piece is None:
            continue
        for node in reversed(outline(scene.template).sources(piece.span)[1]):
            receiver = _receiver(node)
            span = scene.template.span(node)
            if receiver is None or span in seen:
                continue
            seen.add(span)
            source = scene.template.text[slice(*span)]
            kept = scene.template.text[slice(*scene.template.outer_span(receiver))]
            if isinstance(node, nodes.Filter):
                kept += " | string"  # as the filter did, this takes what is missing for ''
            yield (_put(scene, node, kept),)
            variable = scene.variable(span) or (
                scene.variable(scene.here_piece.span) if scene.here_piece else None
            )
            if variable is None:
                continue
            for test in _where(scene, variable):
                untrimmed = _put(scene, node, f"({kept} if {test} else {source})")
                yield (untrimmed,)
                for edit in _where_printed(scene, span, variable):
                    yield (untrimmed, edit)
            if _calls_a_macro(receiver):
                continue  # an exact cut names it three times
            for edit in _with_own_newlines(scene, node, kept, variable):
                yield (_put(scene, node, kept), edit)
            for own in _exactly(scene, kept, variable):
                yield (_put(scene, node, own),)
                for test in _where(scene, variable):
                    yield (_put(scene, node, f"({own} if {test} else {source})"),)


def _fields(scene: Scene) -> Iterator[tuple[Edit, ...]]:
    """A field in a chain after a literal that brings the newlines which the field has, too."""
    seen: set[Span] = set()
    for piece in (scene.before_piece, scene.here_piece):
        if piece is None:
            continue
        variable = scene.variable(piece.span)
        for node in outline(scene.template).sources(piece.span)[1]:
            span = scene.template.span(node)
            if variable is None or span in seen or not _follows_newline(scene, node):
                continue
            seen.add(span)
            source = scene.template.text[slice(*span)]
            for edit in _with_own_newlines(scene, node, source, variable):
                yield (edit,)
            for own in _exactly(scene, source, variable):
                yield (_put(scene, node, own),)


def _put(scene: Scene, node: nodes.Node, text: str) -> Edit:
    """An operand in the place of a node, without parentheses where it stands alone."""
    span = scene.template.span(node)
    parent = scene.template.parents[id(node)].parent
    alone = isinstance(parent, (nodes.Output, nodes.Assign))
    alone = alone and scene.template.outer_span(node) == span and is_wrapped(text)
    return Edit(span.start, span.end, text[1:-1] if alone else text)


def _follows_newline(scene: Scene, node: nodes.Node) -> bool:
    """Whether a field stands in a chain right after a literal that ends in a newline."""
    if not isinstance(node, (nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Filter)):
        return False
    before = _literal_before(scene, node)
    return before is not None and before.value.endswith("\n")


def _literal_before(scene: Scene, node: nodes.Node) -> nodes.Const | None:
    """The literal right before a node in a chain of printed text."""
    parent = scene.template.parents[id(node)].parent
    before: nodes.Node | None = None
    if isinstance(parent, nodes.Add) and parent.right is node:
        before = parent.left.right if isinstance(parent.left, nodes.Add) else parent.left
    elif isinstance(parent, nodes.Concat):
        at = next(i for i, each in enumerate(parent.nodes) if each is node)
        before = parent.nodes[at - 1] if at else None
    return before if isinstance(before, nodes.Const) and isinstance(before.value, str) else None


def _with_own_newlines(scene: Scene, node: nodes.Node, kept: str, variable: str) -> Iterator[Edit]:
    """The newlines before content from the content itself, where a parser has left them in it.

    However many the model wrote, then: the layout's own are for content that lost them.
    """
    written, answer = scene.written, scene.answered.answer
    before = _literal_before(scene, node)
    if written is None or answer is None or before is None:
        return
    if written.content is None or (
        written.reasoning is not None and scene.at <= scene.base + written.reasoning[1]
    ):
        return
    gap, _ = _around(written.text[slice(*written.content)], answer.content)
    if gap.strip("\n") or not gap or not before.value.endswith(gap):
        return
    span = scene.template.span(before)
    own = begins(_chained(kept), "\n")
    literals = [literal(before.value[: -len(gap)])] if before.value != gap else []
    operator = f" {operator_at(scene.template, before)} "
    for test in _both(own, scene.given(variable, "reasoning_content")):
        layout = f"('' if {test} else {literal(gap)})"
        yield Edit(span.start, span.end, operator.join([*literals, layout]))


def _both(text: str, field: str) -> tuple[str, str]:
    """The condition on a text and one on a field: the quicker first, then what may be missing."""
    return f"{text} and {field}", f"{field} and {text}"


def _chained(source: str) -> str:
    """An operand that a slice can follow."""
    return source if _FIELD.fullmatch(source) or source.endswith(")") else f"({source})"


def _exactly(scene: Scene, source: str, variable: str) -> Iterator[str]:
    """A field without what the server's parser left around the text that the model meant.

    Exactly that: whitespace that the model wrote beyond it stays.
    """
    written, base, answer = scene.written, scene.base, scene.answered.answer
    if written is None or answer is None:
        return
    chained = _chained(source)
    if written.reasoning is not None and scene.at <= base + written.reasoning[1]:
        lead, tail = _around(written.text[slice(*written.reasoning)], answer.reasoning)
        yield _cut(chained, lead, tail)
    elif written.content is not None:
        gap, _ = _around(written.text[slice(*written.content)], answer.content)
        printed = scene.stream[: base + written.content[0]]
        # Where nothing was left before this content, the layout's own newlines may be elsewhere.
        gap = gap or printed[len(printed.rstrip("\n")) :]
        if gap:
            brought = begins(chained, gap)
            reasoning = scene.given(variable, "reasoning_content")
            for test in (*_both(brought, reasoning), brought):
                yield f"({chained}[{len(gap)}:] if {test} else {source})"


def _around(meant: str, returned: str | None) -> tuple[str, str]:
    """The whitespace before and after a meant text in the field that the parser returned."""
    before, found, after = (returned or "").partition(meant)
    if not found or before.strip() or after.strip():
        return "", ""
    return before, after


def _cut(source: str, before: str, after: str) -> str:
    """An operand: an expression without what may stand at its front and its end."""
    if before and after:
        # llama.cpp takes no none for the end of a slice.
        first = f"{len(before)} if {begins(source, before)} else 0"
        last = f"-{len(after)} if {ends(source, after)} else {source} | length"
        return f"{source}[{first} : {last}]"
    if before:
        return f"({source}[{len(before)}:] if {begins(source, before)} else {source})"
    return f"({source}[:-{len(after)}] if {ends(source, after)} else {source})" if after else source


def _where_printed(scene: Scene, changed: Span, variable: str) -> Iterator[Edit]:
    """The exact cut at the output that prints a field which is changed elsewhere."""
    for piece in (scene.here_piece, scene.before_piece):
        if piece is None or (changed.start < piece.span.end and piece.span.start < changed.end):
            continue
        node = node_at(scene.template, piece.span)
        if isinstance(node, nodes.Name):
            source = scene.template.text[slice(*piece.span)]
            yield from _with_own_newlines(scene, node, source, variable)
            for own in _exactly(scene, source, variable):
                yield Edit(piece.span.start, piece.span.end, own)


def _calls_a_macro(node: nodes.Node) -> bool:
    calls = [node, *node.find_all(nodes.Call)]
    return any(isinstance(c, nodes.Call) and isinstance(c.node, nodes.Name) for c in calls)


def _receiver(node: nodes.Node) -> nodes.Node | None:
    if isinstance(node, nodes.Filter) and node.name in _LOSSY:
        return node.node
    if (
        isinstance(node, nodes.Call)
        and isinstance(node.node, nodes.Getattr)
        and node.node.attr in _LOSSY
    ):
        return node.node.node
    return None
