"""Where a template prints the answers of history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import nodes

from templatefix.patching.proposals.scene import node_at, variable_of
from templatefix.syntax import Span, Template
from templatefix.syntax.conversation import Conversation, find_conversation


class Unbuildable(Exception):
    """The template is not of a kind whose answers can be printed by a branch of their own."""


@dataclass(frozen=True)
class Region:
    """Statements that print a past answer: the end of one body.

    ``statements`` stand from ``start`` to ``end`` of the source, the tag that ends the body.
    ``variable`` holds the message. ``shared``: other messages come this way, too.
    """

    loop: nodes.For
    statements: tuple[nodes.Node, ...]
    start: int
    end: int
    variable: str
    shared: bool


@lru_cache(maxsize=4)
def _conversation(template: Template) -> Conversation:
    return find_conversation(template)


def region_of(template: Template, spans: Iterable[Span]) -> Region:
    """The smallest region that holds all the ``spans``. Raises :class:`Unbuildable`."""
    conversation = _conversation(template)
    found: list[list[nodes.Node]] = []
    for span in spans:
        node = node_at(template, span)
        if node is None:
            raise Unbuildable("what prints an answer is not in the tree")
        found.append(list(seats(template, node)))
    loops = [
        loop
        for loop in conversation.printing_loops
        if all(any(conversation.loop_around(s) is loop for s in each) for each in found)
    ]
    if not found or len(loops) != 1:
        raise Unbuildable("answers are not printed by one loop over the messages")
    loop = loops[0]
    chains = [
        _bodies(template, seat, loop)
        for each in found
        for seat in each
        if conversation.loop_around(seat) is loop
    ]
    depth = 0
    while all(len(chain) > depth + 1 for chain in chains) and (
        len({id(chain[depth + 1][0]) for chain in chains}) == 1
    ):
        depth += 1
    body = chains[0][depth][0]
    first = min(chain[depth][1] for chain in chains)
    span = template.body_span(body)
    start = template.span(body[first]).start if first else span.start
    variable = variable_of(conversation, loop)
    if variable is None:
        raise Unbuildable("no variable holds the message")
    return Region(
        loop, tuple(body[first:]), start, span.end, variable, not _for_answers(template, body, loop)
    )


def seats(
    template: Template, node: nodes.Node, within: frozenset[str] = frozenset()
) -> Iterator[nodes.Node]:
    """A node, or the calls of the macro in which it stands.

    ``within`` are the macros that lead to it: where these call each other, the call that all begins
    with is sought.
    """
    at: nodes.Node | None = node
    while at is not None and not isinstance(at, nodes.Macro):
        place = template.parents.get(id(at))
        at = place.parent if place else None
    if not isinstance(at, nodes.Macro):
        yield node
        return
    if at.name in within:
        return
    for place in template.places:
        call = place.node
        if (
            isinstance(call, nodes.Call)
            and isinstance(call.node, nodes.Name)
            and call.node.name == at.name
            and _loop_or_macro(template, call)
            and not _for_others(template, call)
        ):
            yield from seats(template, call, within | {at.name})


def _for_others(template: Template, node: nodes.Node) -> bool:
    """Whether the tests around a node rule an answer out."""
    at: nodes.Node | None = node
    while at is not None:
        place = template.parents.get(id(at))
        parent = place.parent if place else None
        if (
            isinstance(parent, nodes.If)
            and place is not None
            and place.field in ("body", "else_")
            and always(parent.test) is (place.field == "else_")
        ):
            return True
        at = parent
    return False


def _loop_or_macro(template: Template, node: nodes.Node) -> bool:
    """Whether a call stands in a loop over the messages or in another macro."""
    if _conversation(template).loop_around(node) is not None:
        return True
    at: nodes.Node | None = node
    while at is not None:
        if isinstance(at, nodes.Macro):
            return True
        place = template.parents.get(id(at))
        at = place.parent if place else None
    return False


def _bodies(
    template: Template, node: nodes.Node, loop: nodes.For
) -> list[tuple[list[nodes.Node], int]]:
    """The lists of statements around a node, the loop's own first, and the index in each."""
    found: list[tuple[list[nodes.Node], int]] = []
    while node is not loop:
        place = template.parents[id(node)]
        parent = place.parent
        if parent is None:
            raise Unbuildable("answers are printed outside of the loop over the messages")
        statements = getattr(parent, place.field, None)
        if place.field in ("body", "else_") and isinstance(statements, list):
            index = next(i for i, each in enumerate(statements) if each is node)
            found.append((statements, index))
        node = parent
    found.reverse()
    # A loop inside, such as that over the calls, is never taken apart.
    for depth, (body, index) in enumerate(found):
        if isinstance(body[index], (nodes.For, nodes.CallBlock, nodes.AssignBlock)):
            return found[: depth + 1]
    return found


def _for_answers(template: Template, body: list[nodes.Node], loop: nodes.For) -> bool:
    """Whether only an answer leads to a body, by the tests around it."""
    node = body[0]
    while node is not loop:
        place = template.parents[id(node)]
        parent = place.parent
        if parent is None:
            return False
        if isinstance(parent, nodes.If) and place.field == "body" and role_test(parent.test):
            return True
        node = parent
    return False


def role_test(test: nodes.Node) -> bool | None:
    """How a test comes out for an answer, where it asks for the role of a message.

    ``True`` only where it comes out otherwise for all others; None where that is not known.
    """
    if isinstance(test, nodes.And):
        parts = [role_test(test.left), role_test(test.right)]
        if False in parts:
            return False
        return True if True in parts else None
    if isinstance(test, nodes.Or):
        parts = [role_test(test.left), role_test(test.right)]
        return parts[0] if parts[0] == parts[1] else None
    if not isinstance(test, nodes.Compare) or len(test.ops) != 1:
        return None
    sides = [test.expr, test.ops[0].expr]
    names = [side.value for side in sides if isinstance(side, nodes.Const)]
    if test.ops[0].op == "eq" and len(names) == 1 and any(map(_is_role, sides)):
        return bool(names[0] == "assistant")
    return None


def always(test: nodes.Node) -> bool | None:
    """How a test comes out for every answer, as far as roles decide it; None if they do not."""
    if isinstance(test, nodes.And):
        parts = [always(test.left), always(test.right)]
        return False if False in parts else True if parts == [True, True] else None
    if isinstance(test, nodes.Or):
        parts = [always(test.left), always(test.right)]
        return True if True in parts else False if parts == [False, False] else None
    if isinstance(test, nodes.Not):
        inner = always(test.node)
        return None if inner is None else not inner
    return role_test(test)


def _is_role(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Getattr):
        return node.attr == "role"
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value == "role"
    return isinstance(node, nodes.Name) and node.name == "role"


def conjuncts(test: nodes.Node) -> Iterator[nodes.Node]:
    if isinstance(test, nodes.And):
        yield from conjuncts(test.left)
        yield from conjuncts(test.right)
    else:
        yield test
