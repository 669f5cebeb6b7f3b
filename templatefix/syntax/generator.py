"""Generates a template's Python code, with the parts of it marked that report on a rendering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from io import StringIO
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.idtracking import VAR_LOAD_RESOLVE

from templatefix.syntax.template import Template
from templatefix.syntax.tree import LEAVES, kinds_of

#: Around what is there for tracing only. Generated code has no such characters of its own: texts
#: of the template stand in it with escapes.
BEGIN, END = "\x01", "\x02"

#: What a ``set`` in a loop may take a message from.
_ORIGINS = (nodes.Getitem, nodes.Filter, nodes.CondExpr, nodes.Name, nodes.Call)


#: What holds nothing but expressions.
_WALKED = kinds_of((nodes.Expr, nodes.Helper, nodes.Output)) - LEAVES


class MarkingGenerator(CodeGenerator):
    """Generates code for a template's tree without changing the tree or evaluating any of it.

    Between marks the code calls ``tracing``, which is the environment's ``recorder`` at the time
    of rendering; ``nodes`` are what its calls refer to by number. ``undeclared`` are the names
    that are looked up outside, ``outside_loads`` the identities of the nodes that do so.
    """

    def __init__(self, template: Template) -> None:
        assert template.ast.environment is not None
        self.output = StringIO()
        # Constants stay unfolded: what was folded away would leave no trace, and can be a bomb.
        super().__init__(template.ast.environment, None, None, self.output, optimized=False)
        self._template = template
        self.undeclared: set[str] = set()
        self.outside_loads: set[int] = set()
        self.nodes: list[nodes.Node] = []
        self._numbers: dict[int, int] = {}
        self._conditions: dict[int, nodes.Expr] = {}
        self._leaves: dict[int, nodes.Expr] = {}
        self._filters: dict[int, nodes.For] = {}
        self._loops: dict[int, tuple[nodes.For, str]] = {}
        self._macros: dict[int, nodes.Macro | nodes.CallBlock] = {}
        self._blocks: list[nodes.Node | None] = []
        self._loop_depth = 0
        for node, _, _ in template.placed(nodes.If, nodes.CondExpr, nodes.For):
            test = getattr(node, "test", None)
            if isinstance(node, (nodes.If, nodes.CondExpr, nodes.For)) and test is not None:
                self._conditions.update((id(part), part) for part in conditions(template, test))
            if isinstance(node, nodes.For) and test is not None:
                self._filters[id(test)] = node

    def number(self, node: nodes.Node) -> int:
        """The number by which tracing calls a node, given out on first use."""
        if id(node) not in self._numbers:
            self._numbers[id(node)] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[id(node)]

    @property
    def conditions(self) -> frozenset[int]:
        """The numbers of those that are conditions, or part of one."""
        return frozenset(self._numbers[each] for each in self._conditions if each in self._numbers)

    def trace(self, code: str) -> None:
        """Write a piece of code that is there for tracing only."""
        self.write(f"{BEGIN}{code}{END}")

    def traceline(self, code: str) -> None:
        """A line of them."""
        self.writeline(f"{BEGIN}{code}{END}")

    def write_commons(self) -> None:
        super().write_commons()
        self.traceline("tracing = environment.recorder")
        self.traceline("concat = tracing.gather")

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> None:
        closing = 0
        loop = self._filters.get(id(node))
        if loop is not None:
            self.trace(f"tracing.kept(tracing.item({self._names(loop.target, args[0])}), ")
            closing += 1
        if id(node) in self._conditions:
            self.trace(f"tracing.truth({self.number(node)}, ")
            closing += 1
        elif id(node) in self._leaves:
            self.trace(f"tracing.leaf({self.number(node)}, ")
            closing += 1
        # As NodeVisitor.visit does, without a further call: the stack must hold as deep a tree as
        # it does without tracing.
        visitor = getattr(self, method_of(type(node)), None) or self.generic_visit
        visitor(node, *args, **kwargs)
        if closing:
            self.trace(")" * closing)

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        with self._found_at_once(node), self._names_at_once():
            super().visit_Template(node, frame)

    def pull_dependencies(self, nodes_: Iterable[nodes.Node]) -> None:
        """Of every filter and every test one use tells as much as all of them.

        Only what this environment lacks needs code for being lacked.
        """
        if self.blocks:  # each of them has its own
            super().pull_dependencies(nodes_)
            return
        lacking: list[nodes.Node] = []
        for kind, field, numbers in (
            (nodes.Filter, "filters", self.filters),
            (nodes.Test, "tests", self.tests),
        ):
            uses = {use.name: use for use in self._template.below(self._template.ast, kind)}
            for name in sorted(uses):
                if name in getattr(self.environment, field):
                    numbers[name] = self.temporary_identifier()
                    self.writeline(f"{numbers[name]} = environment.{field}[{name!r}]")
                else:
                    lacking.append(uses[name])
        super().pull_dependencies(lacking)

    @contextmanager
    def _found_at_once(self, node: nodes.Node) -> Iterator[None]:
        """Let ``node.find_all`` look into the list of the template's nodes.

        Jinja's own walks the tree anew for every loop, with a generator for each level.
        """
        vars(node)["find_all"] = partial(self._template.below, node)
        try:
            yield
        finally:
            vars(node).pop("find_all", None)

    @contextmanager
    def _names_at_once(self) -> Iterator[None]:
        """Let whoever walks through an expression of a statement come to its names directly.

        Jinja walks through all of the tree several times to find out about names, and nothing else
        in an expression matters to it there. For the filters and tests of each block it walks, too.
        """
        template = self._template
        shortened = []
        for node, parent, _ in () if template.placed(nodes.Block) else template.places:
            if type(node) in _WALKED and (parent is None or type(parent) not in _WALKED):
                below = partial(template.below, node, (nodes.Name, nodes.NSRef))
                vars(node)["iter_child_nodes"] = below
                shortened.append(node)
        try:
            yield
        finally:
            for node in shortened:
                del vars(node)["iter_child_nodes"]

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:
        if frame.require_output_check:  # only where the template extends another: none can
            super().visit_Output(node, frame)
            return
        finalize = self._make_finalize()
        for child in node.nodes:
            if frame.buffer is None:
                self.writeline("yield ", child)
            else:
                self.writeline(f"{frame.buffer}.append(", child)
            constant = isinstance(child, (nodes.TemplateData, nodes.Const))
            if constant and not frame.eval_ctx.volatile:
                text = str(self._output_child_to_const(child, frame, finalize))
                self.trace(f"tracing.data({self.number(child)}, ")
                self.write(repr(text))
                self.trace(")")
            else:
                self._leaves.update((id(leaf), leaf) for leaf in leaves(child))
                self.trace(f"tracing.out({self.number(child)}, tracing.begin(), ")
                self._output_child_pre(child, frame, finalize)
                self.visit(child, frame)
                self._output_child_post(child, frame, finalize)
                self.trace(")")
            if frame.buffer is not None:
                self.write(")")

    def start_write(self, frame: Frame, node: nodes.Node | None = None) -> None:
        super().start_write(frame, node)
        if node is not None:
            self.trace(f"tracing.block({self.number(node)}, ")
        self._blocks.append(node)

    def end_write(self, frame: Frame) -> None:
        if self._blocks.pop() is not None:
            self.trace(")")
        super().end_write(frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        outside = self.temporary_identifier()
        self._loops[id(node.body)] = (node, outside)
        self.traceline(f"{outside} = tracing.message")
        self._loop_depth += 1
        with self._found_at_once(node):
            super().visit_For(node, frame)
        self._loop_depth -= 1
        self.traceline(f"tracing.message = {outside}")

    def macro_body(self, node: nodes.Macro | nodes.CallBlock, frame: Frame) -> Any:
        self._macros[id(node.body)] = node
        return super().macro_body(node, frame)

    def blockvisit(self, nodes_: Any, frame: Frame) -> None:
        body: Sequence[nodes.Node] = nodes_
        loop, macro = self._loops.get(id(body)), self._macros.get(id(body))
        outside = None
        if loop is not None:
            node, around = loop
            # Inside a loop that calls itself the message around it is the one at hand.
            around = "tracing.message" if node.recursive else around
            self.traceline(f"tracing.enter({around}, {self._names(node.target, frame)})")
        elif macro is not None:
            outside = self.temporary_identifier()
            names = "".join(f"{frame.symbols.ref(argument.name)}, " for argument in macro.args)
            self.traceline(f"{outside} = tracing.message")
            self.traceline(f"tracing.adopt(({names}))")
        super().blockvisit(body, frame)
        if outside is not None:
            self.traceline(f"tracing.message = {outside}")

    def visit_Assign(self, node: nodes.Assign, frame: Frame) -> None:
        super().visit_Assign(node, frame)
        may_be_message = isinstance(node.target, nodes.Name) and isinstance(node.node, _ORIGINS)
        if self._loop_depth and may_be_message:
            self.traceline(f"tracing.adopt({self._names(node.target, frame)})")

    def _names(self, target: nodes.Node, frame: Frame) -> str:
        """A Python tuple of the variables that a loop or an assignment sets."""
        names = [target] if isinstance(target, nodes.Name) else target.find_all(nodes.Name)
        return "(" + "".join(f"{frame.symbols.ref(name.name)}, " for name in names) + ")"

    # Names

    def enter_frame(self, frame: Frame) -> None:
        super().enter_frame(frame)
        self.undeclared.update(
            name
            for action, name in frame.symbols.loads.values()
            if action == VAR_LOAD_RESOLVE and name not in self.environment.globals
        )

    def visit_Name(self, node: nodes.Name, frame: Frame) -> None:
        super().visit_Name(node, frame)
        if node.ctx == "load":
            load = frame.symbols.find_load(frame.symbols.ref(node.name))
            if load is not None and load[0] == VAR_LOAD_RESOLVE:
                self.outside_loads.add(id(node))

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        # Jinja would evaluate what it takes for constant, and whoever generates code here has set
        # no limits.
        if not isinstance(node, (nodes.TemplateData, nodes.Const)):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)


def conditions(template: Template, test: nodes.Expr) -> Iterator[nodes.Expr]:
    """The whole test, and what its ``and``, ``or`` and ``not`` join: the atoms."""
    yield test
    stack = [test]
    while stack:
        node = stack.pop()
        if isinstance(node, (nodes.And, nodes.Or)):
            stack.extend((node.right, node.left))
        # In "x is not y" two nodes share one piece of source; the outer one speaks for it.
        elif isinstance(node, nodes.Not) and template.span(node.node) != template.span(node):
            stack.append(node.node)
        elif node is not test:
            yield node


def leaves(printed: nodes.Expr) -> Iterator[nodes.Expr]:
    """The operands of a printed ``+`` or ``~`` chain, through inline ifs; else the whole."""
    stack: list[nodes.Expr] = [printed]
    while stack:
        node = stack.pop()
        if isinstance(node, nodes.Add):
            stack.extend((node.right, node.left))
        elif isinstance(node, nodes.Concat):
            stack.extend(reversed(node.nodes))
        elif isinstance(node, nodes.CondExpr):
            stack.extend(part for part in (node.expr2, node.expr1) if part is not None)
        else:
            yield node


@cache
def method_of(kind: type[nodes.Node]) -> str:
    """The name of the method with which Jinja's visitors visit a kind of node."""
    return f"visit_{kind.__name__}"
