"""A Jinja parser that records the exact source span of what it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from templatefix.syntax.lexing import LocatedStream, RawTokens
from templatefix.syntax.tree import Tree

#: Token indexes: first and last, both included.
Extent = tuple[int, int]

#: How tightly operators bind: what Jinja has a method of its own for each of.
_OR, _AND, _NOT, _COMPARE, _SUM, _CONCAT, _PRODUCT, _POWER = range(1, 9)

#: Operators by the type of their token, and those that are words.
_LEVELS = {
    "eq": _COMPARE, "ne": _COMPARE, "lt": _COMPARE, "lteq": _COMPARE, "gt": _COMPARE,
    "gteq": _COMPARE, "add": _SUM, "sub": _SUM, "tilde": _CONCAT, "mul": _PRODUCT,
    "div": _PRODUCT, "floordiv": _PRODUCT, "mod": _PRODUCT, "pow": _POWER,
}  # fmt: skip
_WORDS = {"or": _OR, "and": _AND, "in": _COMPARE}

#: What operators with two sides make, by the type of their token or the word.
_BINARY: dict[str, type[nodes.BinExpr]] = {
    "or": nodes.Or, "and": nodes.And, "add": nodes.Add, "sub": nodes.Sub, "mul": nodes.Mul,
    "div": nodes.Div, "floordiv": nodes.FloorDiv, "mod": nodes.Mod, "pow": nodes.Pow,
}  # fmt: skip
_SIGNS: dict[str, type[nodes.UnaryExpr]] = {"sub": nodes.Neg, "add": nodes.Pos}

_EXPRESSIONS = ("parse_assign_target", "parse_subscribed")
_POSTFIXES = ("parse_subscript", "parse_call", "parse_test", "parse_filter")


class RecordingParser(Parser):
    """Fills tables of token extents, keyed by the identity of nodes and of statement lists.

    ``inner`` is a node without parentheses around it, ``outer`` with them, ``printed`` the
    ``{{ ... }}`` around a printed expression, ``bodies`` the tags around a list of statements.
    ``tree`` lists the nodes of what was parsed.
    """

    stream: LocatedStream
    tree: Tree

    def __init__(self, environment: Environment, raw: RawTokens) -> None:
        super().__init__(environment, "")
        self.raw = raw
        self.stream = LocatedStream(environment, raw)
        self.inner: dict[int, Extent] = {}
        self.outer: dict[int, Extent] = {}
        self.printed: dict[int, Extent] = {}
        self.bodies: dict[int, Extent] = {}
        # The parser drops some nodes, such as a macro's name. Were they freed, their identities
        # would be given to other nodes.
        self._alive: list[object] = []

    def extent(self, node: nodes.Node) -> Extent:
        """The tokens of a node, parentheses around it included."""
        return self.outer.get(id(node)) or self.inner[id(node)]

    def _record(self, node: nodes.Node, extent: Extent) -> None:
        if id(node) not in self.inner:
            self._alive.append(node)
            self.inner[id(node)] = extent

    def parse_condexpr(self) -> nodes.Expr:
        stream = self.stream
        first, line = stream.at, stream.current.lineno
        node = self._operators(_OR)
        while self._takes("if"):
            test = self._operators(_OR)
            otherwise = self.parse_condexpr() if self._takes("else") else None
            node = nodes.CondExpr(test, node, otherwise, lineno=line)
            line = stream.current.lineno
        self._record(node, (first, stream.last))
        return node

    def _takes(self, word: str) -> bool:
        """Go on behind a word, if it comes next."""
        token = self.stream.current
        if token.type != "name" or token.value != word:
            return False
        next(self.stream)
        return True

    def parse_or(self) -> nodes.Expr:
        return self._operators(_OR)

    def _operators(self, level: int) -> nodes.Expr:
        """What the operators of a level, and those that bind tighter, are written around.

        Jinja has a method for every level, from ``parse_or`` to ``parse_pow``, and each operand
        goes through all of them whatever follows it. The nodes made here are theirs.
        """
        stream = self.stream
        first, line = stream.at, stream.current.lineno
        node: nodes.Expr
        if level <= _NOT and stream.current.type == "name" and stream.current.value == "not":
            next(stream)
            node = nodes.Not(self._operators(_NOT), lineno=line)
            self._record(node, (first, stream.last))
        else:
            node = self.parse_unary()
        known = 0
        while (found := self._level()) >= level:
            # The first of a level has the line where its left side begins, as in Jinja.
            begins = stream.current.lineno if found == known else line
            if found == _COMPARE:
                node = self._comparison(node)
            elif found == _CONCAT:
                node = self._concatenation(node, begins)
            else:
                operator = next(stream)
                kind = _BINARY[operator.value if operator.type == "name" else operator.type]
                node = kind(node, self._operators(found + 1), lineno=begins)
            self._record(node, (first, stream.last))
            known = found
        return node

    def _level(self) -> int:
        """The level of the operator that comes next; 0 where there is none."""
        token = self.stream.current
        if token.type != "name":
            return _LEVELS.get(token.type, 0)
        if token.value == "not":
            return _COMPARE if self.stream.look().test("name:in") else 0
        return _WORDS.get(token.value, 0)

    def _comparison(self, left: nodes.Expr) -> nodes.Compare:
        operands = []
        while self._level() == _COMPARE:
            operator = next(self.stream)
            name = operator.type
            if name == "name":
                name = "in"
                if operator.value == "not":
                    name = "notin"
                    next(self.stream)
            operands.append(nodes.Operand(name, self._operators(_SUM)))
        return nodes.Compare(left, operands, lineno=self.stream.current.lineno)

    def _concatenation(self, left: nodes.Expr, line: int) -> nodes.Concat:
        parts = [left]
        while self.stream.current.type == "tilde":
            next(self.stream)
            parts.append(self._operators(_PRODUCT))
        return nodes.Concat(parts, lineno=line)

    def parse_unary(self, with_filter: bool = True) -> nodes.Expr:
        stream = self.stream
        sign = _SIGNS.get(stream.current.type)
        node: nodes.Expr
        if sign is None:
            node = self.parse_primary()
        else:
            first, line = stream.at, next(stream).lineno
            node = sign(self.parse_unary(False), lineno=line)
            self._record(node, (first, stream.last))
        node = self.parse_postfix(node)
        return self.parse_filter_expr(node) if with_filter else node

    def parse_primary(self, with_namespace: bool = False) -> nodes.Expr:
        stream = self.stream
        first = stream.at
        parenthesised = stream.current.type == "lparen"
        node = super().parse_primary(with_namespace)
        self._record(node, (first, stream.last))
        if parenthesised:
            self.outer[id(node)] = (first, stream.last)
        return node

    def parse_tuple(self, *args: Any, **kwargs: Any) -> nodes.Tuple | nodes.Expr:
        first = self.stream.at
        opener = self.stream.last
        node = super().parse_tuple(*args, **kwargs)
        last = self.stream.last
        if last < first:  # the empty tuple: its parentheses are all there is of it
            first, last = opener, self.stream.at
        self._record(node, (first, last))
        if opener >= 0 and self.raw.tokens[opener][1] == "variable_begin":
            self.printed[id(node)] = (opener, self.stream.at)
        return node

    def parse_statement(self) -> nodes.Node | list[nodes.Node]:
        opener = self.stream.last
        statement = super().parse_statement()
        if isinstance(statement, nodes.Node):
            self._record(statement, (opener, self.stream.at))
        return statement

    def subparse(self, end_tokens: tuple[str, ...] | None = None) -> list[nodes.Node]:
        opener = self.stream.last
        body = super().subparse(end_tokens)
        self._alive.append(body)
        self.bodies[id(body)] = (opener, self.stream.last if end_tokens else len(self.raw.tokens))
        return body

    def parse(self) -> nodes.Template:
        try:
            template = nodes.Template(self.subparse(), lineno=1)
        except TemplateSyntaxError as fault:
            fault.lineno = self.raw.line(fault.lineno)
            raise
        self.tree = Tree(template)
        for node in self.tree.nodes:
            node.environment = self.environment  # what set_environment does, with a walk of its own
            if type(node) is nodes.Filter:
                if type(node.node) is nodes.Filter:
                    self._fill_filter(node.node, before=node)
            elif type(node) is nodes.Not and type(node.node) is nodes.Test:
                # "x is not t" is one piece of source for both of its nodes.
                self.inner.setdefault(id(node.node), self.inner[id(node)])
        inner, tokens = self.inner, self.raw.tokens
        for node in reversed(self.tree.nodes[1:]):  # children first
            if id(node) not in inner:
                self._fill(node)
            if node.lineno is not None:
                node.lineno = tokens[node.lineno][0]
        return template

    def _fill(self, node: nodes.Node) -> None:
        """Give a node an extent that no single call of the parser returned."""
        if id(node) in self.inner or isinstance(node, nodes.Template):
            return
        own = node.lineno or 0
        if isinstance(node, nodes.TemplateData):
            self.inner[id(node)] = (own, own)
        elif isinstance(node, nodes.Output):
            parts = [self.printed.get(id(part)) or self.extent(part) for part in node.nodes]
            self.inner[id(node)] = (parts[0][0], parts[-1][1]) if parts else (own, own)
        elif isinstance(node, nodes.If):  # an elif: from its tag to the tag that ends its body
            first, last = self.bodies[id(node.body)]
            tag = own
            while self.raw.tokens[tag][1] != "block_begin":
                tag -= 1
            self.inner[id(node)] = (tag, last - 1)
        elif isinstance(node, nodes.Keyword):
            first, last = self.extent(node.value)
            equals = first - 1
            self.inner[id(node)] = (equals - 1, last)
        elif isinstance(node, nodes.UnaryExpr):
            self.inner[id(node)] = (own, self.extent(node.node)[1])
        else:
            extents = [
                self.extent(child) for child in node.iter_child_nodes() if id(child) in self.inner
            ]
            if extents:
                self.inner[id(node)] = (
                    min(first for first, _ in extents),
                    max(last for _, last in extents),
                )
            else:
                self.inner[id(node)] = (own, own)

    def _fill_filter(self, inner: nodes.Filter, before: nodes.Filter) -> None:
        """``x|a`` in ``x|a|b``: it ends before the bar that starts the next filter."""
        if id(inner) in self.inner:
            return
        bar = before.lineno - 1
        first, node = inner.lineno, inner.node
        while isinstance(node, nodes.Filter):
            first, node = node.lineno, node.node
        if node is not None:
            first = self.extent(node)[0]
        self.inner[id(inner)] = (first, bar - 1)


def _recording(parse: Callable[..., nodes.Expr]) -> Callable[..., nodes.Expr]:
    def recorded(self: RecordingParser, *args: Any, **kwargs: Any) -> nodes.Expr:
        stream = self.stream
        first = stream.at
        node = parse(self, *args, **kwargs)
        # A node that a deeper call made has its own, smaller extent already.
        if id(node) not in self.inner:
            self._record(node, (first, stream.last))
        return node

    return recorded


def _recording_postfix(parse: Callable[..., nodes.Expr]) -> Callable[..., nodes.Expr]:
    def recorded(
        self: RecordingParser, receiver: nodes.Expr | None, *args: Any, **kwargs: Any
    ) -> nodes.Expr:
        first = self.stream.at
        if receiver is not None:
            first = self.extent(receiver)[0]
        node = parse(self, receiver, *args, **kwargs)
        if node is not None and node is not receiver:
            self._record(node, (first, self.stream.last))
        return node

    return recorded


for _name in _EXPRESSIONS:
    setattr(RecordingParser, _name, _recording(getattr(Parser, _name)))
for _name in _POSTFIXES:
    setattr(RecordingParser, _name, _recording_postfix(getattr(Parser, _name)))
