"""A parsed template: the AST, and where each of its nodes stands in the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from templatefix.limits import Exceeded, Step
from templatefix.syntax.additions import GenerationTag, tojson
from templatefix.syntax.fault import Unparsable
from templatefix.syntax.lexing import RawTokens
from templatefix.syntax.parser import Extent, RecordingParser
from templatefix.syntax.span import Lines, Position, Span, normalise_newlines

#: Larger templates are not parsed. Published ones have some ten thousand characters and some
#: thousand tokens.
MOST_CHARACTERS, MOST_TOKENS = 1_000_000, 100_000


@lru_cache(maxsize=1)
def parsing_environment() -> ImmutableSandboxedEnvironment:
    """An environment whose language is that of transformers and vLLM; it renders nothing."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    return environment


N = TypeVar("N", bound=nodes.Node)


class Place(NamedTuple):
    """A node, the node that holds it, and the field in which it is held."""

    node: nodes.Node
    parent: nodes.Node | None
    field: str


@dataclass(frozen=True, eq=False)
class Template:
    """A template's AST, never to be changed, with the exact span of every node.

    ``text`` has its newlines normalised: all spans count in it.
    """

    text: str
    ast: nodes.Template
    _raw: RawTokens = field(repr=False)
    _inner: dict[int, Extent] = field(repr=False)
    _outer: dict[int, Extent] = field(repr=False)
    _printed: dict[int, Extent] = field(repr=False)
    _bodies: dict[int, Extent] = field(repr=False)
    _known: dict[int, Span] = field(default_factory=dict, init=False, repr=False)

    def span(self, node: nodes.Node) -> Span:
        """The node itself, without parentheses around it; a statement with all of its tags."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._characters(self._inner[id(node)])
        return known

    def outer_span(self, node: nodes.Node) -> Span:
        """The node with the parentheses around it."""
        return self._characters(self._outer.get(id(node)) or self._inner[id(node)])

    def print_span(self, node: nodes.Node) -> Span | None:
        """``{{ ... }}`` with its braces, for an expression printed that way."""
        extent = self._printed.get(id(node))
        return None if extent is None else self._characters(extent)

    def body_span(self, body: Sequence[nodes.Node]) -> Span:
        """What stands between two tags, for a list of statements of the AST."""
        before, after = self._bodies[id(body)]
        spans = self._raw.spans
        return Span(
            spans[before].end if before >= 0 else 0,
            spans[after].start if after < len(spans) else len(self.text),
        )

    def source(self, node: nodes.Node) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def tokens(self) -> Iterator[tuple[str, str, Span]]:
        """The kind, the text and the place of each token: for what the tree does not keep."""
        for (_, kind, value), span in zip(self._raw.tokens, self._raw.spans, strict=True):
            yield kind, value, span

    def position(self, offset: int) -> Position:
        """The 1-based line and column of a character."""
        return self.lines.position(offset)

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.text)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Every node below the root, in the order of the source."""
        inner = self._inner
        return tuple(sorted(self._tree.places, key=lambda place: inner[id(place.node)][0]))

    @cached_property
    def parents(self) -> dict[int, Place]:
        """The place of a node, by the node's identity."""
        return {id(place.node): place for place in self.places}

    def below(self, node: nodes.Node, kind: type[N]) -> list[N]:
        """All nodes of a kind in a node, without itself, in the order of ``Node.find_all``."""
        tree = self._tree
        first = tree.indexes[id(node)] + 1
        found = tree.nodes[first : tree.ends[first - 1]]
        return [each for each in found if isinstance(each, kind)]

    @cached_property
    def _tree(self) -> _Tree:
        return _Tree(self.ast)

    def _characters(self, extent: Extent) -> Span:
        first, last = extent
        return Span(self._raw.spans[first].start, self._raw.spans[last].end)


@lru_cache(maxsize=64)
def parse(text: str) -> Template:
    """Parse a template as transformers would.

    Raises :class:`Unparsable` for a syntax error and for what exhausts the parser.
    """
    if len(text) > MOST_CHARACTERS:
        message = f"the template has {len(text)} characters, more than {MOST_CHARACTERS}"
        raise Unparsable(message, code="TF601")
    source = normalise_newlines(text)
    environment = parsing_environment()
    step = Step("parsing")
    try:
        with step:
            raw = RawTokens(environment, source)
            if len(raw.tokens) > MOST_TOKENS:
                message = f"the template has {len(raw.tokens)} tokens, more than {MOST_TOKENS}"
                raise Unparsable(message, code="TF601")
            parser = RecordingParser(environment, raw)
            ast = parser.parse()
    except Exceeded as fault:
        raise Unparsable(step.note(fault), code="TF601") from None
    except TemplateSyntaxError as fault:
        raise Unparsable(fault.message or "syntax error", int(fault.lineno)) from None
    except TemplateError as fault:
        raise Unparsable(str(fault)) from None
    except RecursionError:
        raise Unparsable("the template is nested too deeply") from None
    except (ValueError, OverflowError, MemoryError) as fault:
        raise Unparsable(str(fault) or type(fault).__name__) from None
    return Template(source, ast, raw, parser.inner, parser.outer, parser.printed, parser.bodies)


class _Tree:
    """The nodes of a tree, each before its children, the root first.

    ``ends`` has for each the index after the last node in it; ``places`` leave out the root.
    """

    def __init__(self, root: nodes.Node) -> None:
        self.nodes = [root]
        self.places: list[Place] = []
        above = [0]
        # Without recursion: chains of operators nest deeply.
        stack = [(place, 0) for place in reversed(_children(root))]
        while stack:
            place, parent = stack.pop()
            index = len(self.nodes)
            self.nodes.append(place.node)
            self.places.append(place)
            above.append(parent)
            if not isinstance(place.node, _LEAVES):
                stack.extend([(child, index) for child in reversed(_children(place.node))])
        self.indexes = {id(node): index for index, node in enumerate(self.nodes)}
        self.ends = list(range(1, len(self.nodes) + 1))
        for index in range(len(self.nodes) - 1, 0, -1):
            self.ends[above[index]] = max(self.ends[above[index]], self.ends[index])


#: Kinds of nodes that never hold others.
_LEAVES = (nodes.Name, nodes.Const, nodes.TemplateData)


def _children(parent: nodes.Node) -> list[Place]:
    found: list[Place] = []
    for name, value in parent.iter_fields():
        if isinstance(value, nodes.Node):
            found.append(Place(value, parent, name))
        elif isinstance(value, list):
            found += [Place(each, parent, name) for each in value if isinstance(each, nodes.Node)]
    return found
