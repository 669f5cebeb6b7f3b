"""The source of the generation prompt: it is printed again before each past answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import nodes

from templatefix.patching.ladder.rebuild_place import Unbuildable, conjuncts
from templatefix.patching.proposals.scene import node_at
from templatefix.patching.proposals.text import joined, literal, operand
from templatefix.render.trace import Piece
from templatefix.syntax import Span, Template, parse


@dataclass(frozen=True)
class Opener:
    """The generation prompt's source: statements between two tags, and when they are reached.

    ``left`` and ``right`` tell whether the tags around it take whitespace away. ``texts`` are the
    variables that never hold anything but a string.
    """

    source: str
    tests: tuple[str, ...]
    left: bool
    right: bool
    texts: frozenset[str]

    def assigned(self, name: str) -> str:
        """The statement that sets a variable to the generation prompt.

        A value where nothing but literals and conditions make it, else a block that is captured.
        """
        block = self._captured(name)
        parsed = parse(block)
        (captured,) = parsed.below(parsed.ast, nodes.AssignBlock)[:1]
        value = _value(parsed, captured.body, self.texts)
        return block if value is None else f"{{%- set {name} = {value} %}}"

    def _captured(self, name: str) -> str:
        left, right = "-" if self.left else "", "-" if self.right else ""
        if self.tests:
            test = " and ".join(self.tests)
            body = f"{{%- if {test} {left}%}}{self.source}{{%{right} endif %}}"
            return f"{{%- set {name} %}}{body}{{% endset %}}"
        return f"{{%- set {name} {left}%}}{self.source}{{%{right} endset %}}"


def _value(template: Template, body: Sequence[nodes.Node], texts: frozenset[str]) -> str | None:
    """An expression for what statements print; None where more than strings and conditions do."""
    parts: list[str] = []
    for statement in body:
        if isinstance(statement, nodes.Output):
            for node in statement.nodes:
                if isinstance(node, nodes.TemplateData):
                    parts.append(literal(node.data))
                elif _is_text(node, texts):
                    parts.append(template.source(node))
                else:
                    return None
        elif isinstance(statement, nodes.If):
            choice = _choice(template, [statement, *statement.elif_], statement.else_, texts)
            if choice is None:
                return None
            parts.append(choice if len(body) == 1 else f"({choice})")
        else:
            return None
    return joined(parts)


def _is_text(node: nodes.Node, texts: frozenset[str]) -> bool:
    if isinstance(node, nodes.Add):
        return _is_text(node.left, texts) and _is_text(node.right, texts)
    if isinstance(node, nodes.Name):
        return node.name in texts
    return isinstance(node, nodes.Const) and isinstance(node.value, str)


def _texts(template: Template) -> frozenset[str]:
    """Variables to which the template gives strings, and nothing else ever."""
    names = template.below(template.ast, nodes.Name)
    given = Counter(name.name for name in names if name.ctx != "load")
    strings = Counter(
        assign.target.name
        for assign in template.below(template.ast, nodes.Assign)
        if isinstance(assign.target, nodes.Name)
        and isinstance(assign.node, nodes.Const)
        and isinstance(assign.node.value, str)
    )
    return frozenset(name for name, count in strings.items() if given[name] == count)


def _choice(
    template: Template,
    branches: Sequence[nodes.If],
    last: Sequence[nodes.Node],
    texts: frozenset[str],
) -> str | None:
    values = [_value(template, branch.body, texts) for branch in branches]
    other = _value(template, last, texts)
    if other is None:
        return None
    for branch, value in zip(reversed(branches), reversed(values), strict=True):
        if value is None:
            return None
        if any(isinstance(statement, nodes.If) for statement in branch.body):
            value = operand(value)
        other = f"{value} if {template.source(branch.test)} else {other}"
    return other


def opener_of(template: Template, loop: nodes.For, pieces: Sequence[Piece]) -> Opener:
    """The source that printed ``pieces`` after the messages. Raises ``Unbuildable``."""
    parts = _after(template, loop, pieces)
    if len(parts) > 1:
        return _several(template, parts)
    found: nodes.If | None = None
    for piece in pieces:
        block = _generation_block(template, piece.span)
        if block is None or (found is not None and block is not found):
            raise Unbuildable("the generation prompt is not printed by one block")
        found = block
    if found is None:
        raise Unbuildable("no generation prompt is printed")
    span = template.body_span(found.body)
    tests = tuple(_others(template, found.test))
    text = template.text
    return Opener(
        text[span.start : span.end],
        tests,
        text[: span.start].endswith("-%}"),
        text[span.end :].startswith("{%-"),
        _texts(template),
    )


def _after(template: Template, loop: nodes.For, pieces: Sequence[Piece]) -> list[nodes.Node]:
    """The statements after the loop, beside it, that printed something."""
    place = template.parents[id(loop)]
    body = getattr(place.parent, place.field)
    at = next(i for i, each in enumerate(body) if each is loop)
    return [
        statement
        for statement in body[at + 1 :]
        if any(
            template.span(statement).start <= piece.span.start
            and piece.span.end <= template.span(statement).end
            for piece in pieces
        )
    ]


def _several(template: Template, parts: Sequence[nodes.Node]) -> Opener:
    """Statements after the loop, the generation prompt among them as if it were asked for."""
    texts: list[str] = []
    before: tuple[nodes.If, str] | None = None
    for part in parts:
        choice: tuple[nodes.If, str] | None = None
        start, end = template.span(part)
        text = template.text[start:end]
        if isinstance(part, nodes.If) and asks_for_prompt(part):
            if part.elif_ or part.else_:
                raise Unbuildable("something else is printed where no answer is asked for")
            first, last = template.outer_span(part.test)
            test = " and ".join(_others(template, part.test)) or "true"
            if before is not None and test == f"not {before[1]}":
                # One look at what the first choice has looked at.
                texts[-1] = _joint(template, before[0], part)
                before = None
                continue
            text = template.text[start:first] + test + template.text[last:end]
        elif isinstance(part, nodes.Output) and not isinstance(part.nodes[0], nodes.TemplateData):
            pass
        elif not isinstance(part, nodes.If):
            raise Unbuildable("what is printed after the messages is not printed by blocks")
        elif not (part.elif_ or part.else_) and _only_prints(part):
            choice = part, template.source(part.test)
        texts.append(text)
        before = choice
    return Opener("".join(texts), (), False, False, _texts(template))


def _only_prints(choice: nodes.If) -> bool:
    return all(isinstance(statement, nodes.Output) for statement in choice.body)


def _joint(template: Template, one: nodes.If, other: nodes.If) -> str:
    """The source of two choices, of which the second is made where the first is not."""
    text = template.text
    first, second = template.body_span(one.body), template.body_span(other.body)
    left = "-" if text[first.end :].startswith("{%-") else ""
    right = "-" if text[: second.start].endswith("-%}") else ""
    opened = text[template.span(one).start : first.end]
    return f"{opened}{{%{left} else {right}%}}{text[second.start : template.span(other).end]}"


def _others(template: Template, test: nodes.Node) -> list[str]:
    """The conditions of a generation prompt besides that it is asked for, last of all."""
    return [
        template.text[slice(*template.outer_span(part))]
        for part in conjuncts(test)
        if not _asks_for_prompt(part) and not _is_last(part)
    ]


def _generation_block(template: Template, span: Span) -> nodes.If | None:
    node = node_at(template, span)
    found = None
    while node is not None and id(node) in template.parents:
        place = template.parents[id(node)]
        parent = place.parent
        if isinstance(parent, nodes.If) and place.field == "body" and asks_for_prompt(parent):
            found = parent
        node = place.parent
    return found


def _asks_for_prompt(test: nodes.Node) -> bool:
    if isinstance(test, nodes.Test) and test.name == "defined":
        test = test.node
    return isinstance(test, nodes.Name) and test.name == "add_generation_prompt"


def _is_last(test: nodes.Node) -> bool:
    return (
        isinstance(test, nodes.Getattr)
        and test.attr == "last"
        and isinstance(test.node, nodes.Name)
        and test.node.name == "loop"
    )


def asks_for_prompt(choice: nodes.If) -> bool:
    """Whether a choice is made by whether a generation prompt is asked for, among others."""
    return any(map(_asks_for_prompt, conjuncts(choice.test)))
