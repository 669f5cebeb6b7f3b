"""A parsed template: the AST, and where each of its nodes stands in the text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from jinja2 import Environment, TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from templatefix.limits import Exceeded, Step
from templatefix.syntax.additions import GenerationTag, tojson
from templatefix.syntax.fault import Unparsable
from templatefix.syntax.lexing import RawTokens
from templatefix.syntax.parser import Extent, RecordingParser
from templatefix.syntax.span import Lines, Position, Span, normalise_newlines
from templatefix.syntax.tree import Place, Tree, kinds_of

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


@dataclass(frozen=True, eq=False)
class Template:
    """A template's AST, never to be changed, with the exact span of every node.

    ``text`` has its newlines normalised: all spans count in it.
    """

    text: str
    ast: nodes.Template
    _tree: Tree = field(repr=False)
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
        raw = self._raw
        return Span(
            raw.ends[before] if before >= 0 else 0,
            raw.starts[after] if after < len(raw.tokens) else len(self.text),
        )

    def source(self, node: nodes.Node) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def tokens(self, *kinds: str) -> Iterator[tuple[str, str, Span]]:
        """The kind, the text and the place of tokens: for what the tree does not keep."""
        raw = self._raw
        for index, (_, kind, value) in enumerate(raw.tokens):
            if kind in kinds:
                yield kind, value, Span(raw.starts[index], raw.ends[index])

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
        return tuple(sorted(self._tree.places, key=lambda place: inner[id(place[0])][0]))

    @cached_property
    def _by_kind(self) -> dict[type[nodes.Node], list[int]]:
        found: dict[type[nodes.Node], list[int]] = defaultdict(list)
        for index, (node, _, _) in enumerate(self.places):
            found[type(node)].append(index)
        return dict(found)

    def placed(self, *kinds: type[nodes.Node]) -> list[Place]:
        """The places of the nodes of some concrete kinds, in the order of the source."""
        indexes = [index for kind in kinds for index in self._by_kind.get(kind, ())]
        return [self.places[index] for index in sorted(indexes)]

    @cached_property
    def printed(self) -> tuple[nodes.Node, ...]:
        """Whatever stands in an output, in the order of the source."""
        outputs = [place.node for place in self.placed(nodes.Output)]
        return tuple(
            each for node in outputs if isinstance(node, nodes.Output) for each in node.nodes
        )

    @cached_property
    def parents(self) -> dict[int, Place]:
        """The place of a node, by the node's identity."""
        return {id(place[0]): place for place in self.places}

    def below(self, node: nodes.Node, kind: type[N] | tuple[type[N], ...]) -> list[N]:
        """All nodes of a kind in a node, without itself, in the order of ``Node.find_all``.

        ``kind`` may be several kinds.
        """
        tree = self._tree
        first = tree.indexes[id(node)] + 1
        found: list[Any] = tree.nodes[first : tree.ends[first - 1]]
        kinds = kinds_of(kind)
        return [each for each in found if type(each) in kinds]

    def _characters(self, extent: Extent) -> Span:
        first, last = extent
        # As Span(...), without a call of Python's own in between: there are many.
        return tuple.__new__(Span, (self._raw.starts[first], self._raw.ends[last]))


def _raw_tokens(environment: Environment, source: str) -> RawTokens:
    try:
        return RawTokens(environment, source)
    except TemplateSyntaxError:
        # Jinja reads no further than it understands: what it stumbles over may come before.
        Parser(environment, source).parse()
        raise


@lru_cache(maxsize=8)
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
            raw = _raw_tokens(environment, source)
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
    return Template(
        source, ast, parser.tree, raw, parser.inner, parser.outer, parser.printed, parser.bodies
    )
