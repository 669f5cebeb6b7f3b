"""What has to stay of the statements that a rebuilt branch replaces: all that they do but print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jinja2 import nodes

from templatefix.patching.ladder.rebuild_place import Region, Unbuildable, always, conjuncts
from templatefix.syntax import Template
from templatefix.syntax.names import loaded_names

#: Lines of Jinja, each with its depth.
Lines = list[tuple[int, str]]


def kept(template: Template, region: Region, calls: nodes.For | None) -> Lines:
    """The bookkeeping and the refusals of a region, and its loop over calls in its own words.

    Raises :class:`Unbuildable`.
    """
    needed = _read_after(template, region)
    while True:
        keeper = _Keeper(template, calls, frozenset(needed))
        lines = keeper.statements(region.statements, 0)
        more = keeper.read - needed
        if not more:
            return lines
        needed |= more


class _Keeper:
    def __init__(self, template: Template, calls: nodes.For | None, needed: frozenset[str]) -> None:
        self.template = template
        self.calls = calls
        self.needed = needed
        self.read: set[str] = set()

    def statements(self, body: Sequence[nodes.Node], depth: int) -> Lines:
        return [line for node in body for line in self._statement(node, depth)]

    def _statement(self, node: nodes.Node, depth: int) -> Iterator[tuple[int, str]]:
        if node is self.calls:
            self._reads(node)
            yield depth, _dashed(self.template.source(node))
        elif isinstance(node, nodes.Output):
            yield from self._refusals(node, depth)
        elif isinstance(node, (nodes.Assign, nodes.AssignBlock)):
            target = node.target
            if isinstance(target, nodes.NSRef) or _names(target) & self.needed:
                self._reads(node)
                yield depth, _dashed(self.template.source(node))
        elif isinstance(node, nodes.ExprStmt):
            self._reads(node)
            yield depth, _dashed(self.template.source(node))
        elif isinstance(node, nodes.If):
            yield from self._choice(node, depth)
        elif isinstance(node, nodes.For):
            body = self.statements(node.body, depth + 1)
            if body:
                self._reads(node.iter)
                yield depth, self._opening(node)
                yield from body
                yield depth, "{%- endfor %}"
        elif isinstance(node, nodes.CallBlock):
            yield from self.statements(node.body, depth)
        elif not isinstance(node, nodes.Macro):
            raise Unbuildable(f"a {type(node).__name__.lower()} stands where answers are printed")

    def _opening(self, node: nodes.For) -> str:
        """The tag of a loop, in its own words."""
        start = self.template.span(node).start
        end = self.template.body_span(node.body).start
        return _dashed(self.template.text[start:end])

    def _refusals(self, node: nodes.Output, depth: int) -> Iterator[tuple[int, str]]:
        for part in node.nodes:
            for call in [part, *part.find_all(nodes.Call)]:
                if (
                    isinstance(call, nodes.Call)
                    and isinstance(call.node, nodes.Name)
                    and call.node.name == "raise_exception"
                ):
                    if call is not part:
                        raise Unbuildable("a refusal stands inside of an expression")
                    self._reads(call)
                    yield depth, "{{- " + self.template.source(call) + " }}"

    def _choice(self, node: nodes.If, depth: int) -> Iterator[tuple[int, str]]:
        branches: list[tuple[nodes.Node | None, Lines]] = []
        for branch in (node, *node.elif_):
            outcome = always(branch.test)
            if outcome is False:
                continue
            body = self.statements(branch.body, depth + 1)
            branches.append((None if outcome else branch.test, body))
            if outcome:
                break
        else:
            branches.append((None, self.statements(node.else_, depth + 1)))
        while branches and not branches[-1][1]:
            branches.pop()
        if not branches:
            return
        if branches[0][0] is None or (len(branches) == 1 and _clears(node)):
            yield from ((depth - 1 + (d - depth), text) for d, text in branches[0][1])
            return
        if len(branches) == 2 and not branches[0][1] and branches[1][0] is None:
            asked = _asked(branches[0][0])
            if len(asked) == 1 and isinstance(asked[0], nodes.Not):
                branches = [(asked[0].node, branches[1][1])]
        word = "if"
        for test, body in branches:
            if test is None:
                yield depth, "{%- else %}"
            else:
                self._reads(test)
                source = " and ".join(
                    self.template.text[slice(*self.template.outer_span(part))]
                    for part in _asked(test)
                )
                yield depth, f"{{%- {word} {source} %}}"
            word = "elif"
            yield from body
        yield depth, "{%- endif %}"

    def _reads(self, node: nodes.Node) -> None:
        self.read |= loaded_names(node)


def _asked(test: nodes.Node) -> list[nodes.Node]:
    """What a condition asks beyond what is known where past answers are printed."""
    return [part for part in conjuncts(test) if always(part) is not True]


def _clears(choice: nodes.If) -> bool:
    """``if ns.is_tool``, then nothing but ``set ns.is_tool = false``: so it is false either way."""
    test, body = choice.test, [n for n in choice.body if not isinstance(n, nodes.Output)]
    return (
        len(body) == 1
        and isinstance(body[0], nodes.Assign)
        and isinstance(body[0].target, nodes.NSRef)
        and isinstance(body[0].node, nodes.Const)
        and body[0].node.value is False
        and isinstance(test, nodes.Getattr)
        and isinstance(test.node, nodes.Name)
        and (test.node.name, test.attr) == (body[0].target.name, body[0].target.attr)
    )


def _names(target: nodes.Node) -> set[str]:
    return {n.name for n in [target, *target.find_all(nodes.Name)] if isinstance(n, nodes.Name)}


def _read_after(template: Template, region: Region) -> set[str]:
    """Names that the rest of the loop's body reads."""
    found: set[str] = set()
    for node in region.loop.find_all(nodes.Name):
        if node.ctx == "load" and template.span(node).start >= region.end:
            found.add(node.name)
    return found


def _dashed(source: str) -> str:
    """A tag that takes away the whitespace before it."""
    return (
        source if source.startswith(("{%-", "{{-")) else source[:2] + "-" + source[2:].lstrip("+")
    )
