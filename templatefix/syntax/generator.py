"""Generates a template's Python code, with the parts of it marked that report on a rendering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from io import StringIO
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, CompilerExit, Frame
from jinja2.idtracking import VAR_LOAD_ALIAS, VAR_LOAD_RESOLVE, VAR_LOAD_UNDEFINED

from templatefix.syntax.template import Template
from templatefix.syntax.tree import LEAVES, kinds_of

#: Around what is there for tracing only, and around what is not there for tracing. Generated code
#: has no such characters of its own: texts of the template stand in it with escapes.
BEGIN, END, PLAIN_BEGIN, PLAIN_END = "\x01", "\x02", "\x03", "\x04"

#: What every rendering is given, besides the globals of all environments: see
#: ``render.jinja.template_variables`` and ``render.jinja.make_environment``.
_GIVEN = frozenset(
    "messages tools documents add_generation_prompt raise_exception strftime_now".split()
)

#: What hands all variables of a template on to other code.
_HANDS_ON = (nodes.Block, nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)

#: What a ``set`` in a loop may take a message from.
_ORIGINS = (nodes.Getitem, nodes.Filter, nodes.CondExpr, nodes.Name, nodes.Call)


#: As Jinja says it.
_NO_NAMESPACE = "cannot assign attribute on non-namespace object"

#: What holds nothing but expressions.
_WALKED = kinds_of((nodes.Expr, nodes.Helper, nodes.Output)) - LEAVES


class MarkingGenerator(CodeGenerator):
    """Generates code for a template's tree without changing the tree or evaluating any of it.

    Between marks the code calls ``tracing``, which is the environment's ``recorder`` at the time
    of rendering; ``nodes`` are what its calls refer to by number. ``undeclared`` are the names
    that are looked up outside, ``outside_loads`` the identities of the nodes that do so.

    The code does what Jinja's does, in fewer words, for Python's compiler takes longer over them
    than it takes to generate them. Variables that have a value for certain are not asked whether
    they have one. What only other templates could look up is not kept for them.
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
        #: The identities of conditions and of what is part of one, and of all that reports.
        self._conditions: set[int] = set()
        self._marked: set[int] = set()
        self._filters: dict[int, nodes.For] = {}
        self._loops: dict[int, tuple[nodes.For, str]] = {}
        self._macros: dict[int, nodes.Macro | nodes.CallBlock] = {}
        self._blocks: list[nodes.Node | None] = []
        self._loop_depth = 0
        #: Python's variables that have a value for certain at this point of the code, and what is
        #: known of those that hold a namespace.
        self._filled: frozenset[str] = frozenset()
        self._hands_on = bool(template.placed(*_HANDS_ON))
        for node, _, _ in template.placed(nodes.If, nodes.CondExpr, nodes.For):
            test = getattr(node, "test", None)
            if isinstance(node, (nodes.If, nodes.CondExpr, nodes.For)) and test is not None:
                self._conditions.update(map(id, conditions(template, test)))
            if type(node) is nodes.For and test is not None:
                self._filters[id(test)] = node
        self._marked |= self._conditions

    def number(self, node: nodes.Node) -> int:
        """The number by which tracing calls a node, given out on first use."""
        if id(node) not in self._numbers:
            self._numbers[id(node)] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[id(node)]

    def trace(self, code: str) -> None:
        """Write a piece of code that is there for tracing only."""
        self.write(f"{BEGIN}{code}{END}")

    def traceline(self, code: str) -> None:
        """A line of them."""
        self.writeline(f"{BEGIN}{code}{END}")

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("given = context.parent.get")
        self.writeline("attribute = environment.getattr")
        self.writeline("item = environment.getitem")
        self.writeline("call = environment.call")
        self.traceline("tracing = environment.recorder")
        self.traceline("concat = tracing.gather")

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> None:
        # As NodeVisitor.visit does, without a further call: the stack must hold as deep a tree as
        # it does without tracing.
        visitor = _visitor_of(type(node))
        if id(node) not in self._marked:
            visitor(self, node, *args, **kwargs)
            return
        closing = 0
        filled = self._filled
        loop = self._filters.get(id(node))
        if loop is not None:
            self._filled = _of_root(filled)  # who holds ``loop`` may run it after the loop's end
            self.trace(f"tracing.kept(tracing.item({self._names(loop.target, args[0])}), ")
            closing += 1
        if id(node) in self._conditions:
            self.trace(f"tracing.truth({self.number(node)}, ")
            closing += 1
        elif loop is None:  # the leaf of a chain
            self.trace(f"tracing.leaf({self.number(node)}, ")
            closing += 1
        visitor(self, node, *args, **kwargs)
        if loop is not None:
            self._filled = filled
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
        shortened: list[nodes.Node] = []
        for node, parent, _ in () if template.placed(nodes.Block) else template.places:
            if type(node) is nodes.For:
                # Its body as a whole is only walked through to see if it asks for the loop.
                vars(node)["iter_child_nodes"] = partial(self._loop_names, node)
            elif type(node) is nodes.If or (
                type(node) in _WALKED and (parent is None or type(parent) not in _WALKED)
            ):
                below = partial(template.below, node, (nodes.Name, nodes.NSRef))
                vars(node)["iter_child_nodes"] = below
            else:
                continue
            shortened.append(node)
        try:
            yield
        finally:
            for node in shortened:
                del vars(node)["iter_child_nodes"]

    def _loop_names(self, node: nodes.For, *, only: Sequence[str] = ()) -> list[nodes.Name]:
        """The names in a loop, or those in its body that are called ``loop``."""
        if not only:
            return self._template.below(node, nodes.Name)
        body = [self._template.below(part, nodes.Name) for part in node.body]
        return [name for names in body for name in names if name.name == "loop"]

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
            elif type(child) not in _CHAINS and not _escapes(frame):
                self.trace(f"tracing.whole({self.number(child)}, ")
                self.write(f"{PLAIN_BEGIN}str({PLAIN_END}")
                self.visit(child, frame)
                self.write(")")
            else:
                self._marked.update(map(id, leaves(child)))
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
        filled = self._filled
        if node.recursive:  # its body is a function, which may be called after all
            self._filled = _of_root(filled)
        outside = self.temporary_identifier()
        self._loops[id(node.body)] = (node, outside)
        self.traceline(f"{outside} = tracing.message")
        self._loop_depth += 1
        with self._found_at_once(node):
            super().visit_For(node, frame)
        self._loop_depth -= 1
        self.traceline(f"tracing.message = {outside}")
        self._filled = filled

    def macro_body(self, node: nodes.Macro | nodes.CallBlock, frame: Frame) -> Any:
        self._macros[id(node.body)] = node
        filled, self._filled = self._filled, _of_root(self._filled)
        made = super().macro_body(node, frame)
        self._filled = filled
        return made

    def visit_Macro(self, node: nodes.Macro, frame: Frame) -> None:
        if self._hands_on:
            super().visit_Macro(node, frame)
            return
        macro_frame, macro = self.macro_body(node, frame)
        name = frame.symbols.ref(node.name)
        self.writeline(f"{name} = ")
        self.macro_def(macro, macro_frame)
        self._fill([name])

    def blockvisit(self, nodes_: Any, frame: Frame) -> None:
        filled = self._filled
        self._body(nodes_, frame)
        self._filled = filled  # nobody knows whether the body was reached

    def _body(self, body: Sequence[nodes.Node], frame: Frame) -> None:
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
        begun = self.output.tell()
        try:
            for each in body:
                self.visit(each, frame)
        except CompilerExit:
            pass
        if self.output.tell() == begun:
            self.writeline("pass")
        if outside is not None:
            self.traceline(f"tracing.message = {outside}")

    def visit_If(self, node: nodes.If, frame: Frame) -> None:
        inner = frame.soft()
        ends = []  # what has a value at the end of each branch
        for word, branch in (("if ", node), *(("elif ", each) for each in node.elif_)):
            self.writeline(word, branch)
            self.visit(branch.test, inner)
            self.write(":")
            before = self._filled
            self._fill_by(branch.test, True, frame)
            ends.append(self._branch(branch.body, inner))
            self._filled = before
            self._fill_by(branch.test, False, frame)
        if node.else_:
            self.writeline("else:")
            ends.append(self._branch(node.else_, inner))
        else:
            ends.append(self._filled)
        self._filled = frozenset.intersection(*ends)

    def _branch(self, body: Sequence[nodes.Node], frame: Frame) -> frozenset[str]:
        self.indent()
        self._body(body, frame)
        self.outdent()
        return self._filled

    def visit_Assign(self, node: nodes.Assign, frame: Frame) -> None:
        if type(node.target) is nodes.NSRef:
            self._set_attribute(node, node.target, frame)
            return
        super().visit_Assign(node, frame)
        self._fill_target(node.target, frame)
        may_be_message = type(node.target) is nodes.Name and isinstance(node.node, _ORIGINS)
        if self._loop_depth and may_be_message:
            self.traceline(f"tracing.adopt({self._names(node.target, frame)})")

    def _set_attribute(self, node: nodes.Assign, target: nodes.NSRef, frame: Frame) -> None:
        """``ns.x = ...``, which only a namespace allows: it is asked once whether it is one."""
        variable = frame.symbols.ref(target.name)
        asked = _is_namespace(variable)
        if asked not in self._filled:
            self.writeline(f"if not isinstance({variable}, Namespace):", node)
            self.indent()
            self.writeline(f"raise TemplateRuntimeError({_NO_NAMESPACE!r})")
            self.outdent()
            self._fill([asked])
        self.writeline(f"{variable}[{target.attr!r}] = ", node)
        self.visit(node.node, frame)

    def _names(self, target: nodes.Node, frame: Frame) -> str:
        """A Python tuple of the variables that a loop or an assignment sets."""
        names = [target] if type(target) is nodes.Name else target.find_all(nodes.Name)
        return "(" + "".join(f"{frame.symbols.ref(name.name)}, " for name in names) + ")"

    def visit_AssignBlock(self, node: nodes.AssignBlock, frame: Frame) -> None:
        super().visit_AssignBlock(node, frame)
        self._fill_target(node.target, frame)

    def pop_assign_tracking(self, frame: Frame) -> None:
        if self._hands_on:
            super().pop_assign_tracking(frame)
        else:
            self._assign_stack.pop()

    # Names

    def enter_frame(self, frame: Frame) -> None:
        if self._hands_on:
            super().enter_frame(frame)
        else:
            self._load(frame)
        filled = []
        for target, (action, name) in frame.symbols.loads.items():
            if action == VAR_LOAD_RESOLVE:
                is_global = name in self.environment.globals
                if not is_global:
                    self.undeclared.add(name)
                if is_global or name in _GIVEN:
                    filled.append(target)
            elif action == VAR_LOAD_ALIAS and name in self._filled:
                filled.append(target)
        self._fill(filled)

    def _load(self, frame: Frame) -> None:
        """As Jinja does, but that a context holds no more than what it was made of."""
        empty = []
        for target, (action, name) in frame.symbols.loads.items():
            if action == VAR_LOAD_RESOLVE:
                self.writeline(f"{target} = given({name!r}, missing)")
            elif action == VAR_LOAD_ALIAS:
                self.writeline(f"{target} = {name}")
            elif action == VAR_LOAD_UNDEFINED:
                empty.append(target)
        if empty:
            self.writeline(f"{' = '.join(empty)} = missing")

    def leave_frame(self, frame: Frame, with_python_scope: bool = False) -> None:
        super().leave_frame(frame, with_python_scope)
        self._filled = self._filled.difference(frame.symbols.loads)

    def _fill(self, variables: Iterable[str]) -> None:
        if not self._hands_on:
            self._filled = self._filled.union(variables)

    def _fill_target(self, target: nodes.Node, frame: Frame) -> None:
        """A ``set`` has given its target a value."""
        names = [target] if type(target) is nodes.Name else target.find_all(nodes.Name)
        variables = [frame.symbols.ref(name.name) for name in names]
        self._filled = self._filled.difference(map(_is_namespace, variables))
        self._fill(variables)

    def _fill_by(self, test: nodes.Node, holds: bool, frame: Frame) -> None:
        """What a condition tells, once it is known how it came out."""
        if type(test) is nodes.Not:
            self._fill_by(test.node, not holds, frame)
        elif isinstance(test, nodes.And if holds else nodes.Or):
            self._fill_by(test.left, holds, frame)
            self._fill_by(test.right, holds, frame)
        elif type(test) is nodes.Test:
            wanted = "defined" if holds else "undefined"
            if test.name == wanted and type(test.node) is nodes.Name:
                self._fill([frame.symbols.ref(test.node.name)])
        elif type(test) is nodes.Name and holds:  # what is undefined is false
            self._fill([frame.symbols.ref(test.name)])

    def visit_Name(self, node: nodes.Name, frame: Frame) -> None:
        if node.ctx != "load":
            super().visit_Name(node, frame)
            return
        variable = self._read(node, frame)
        if variable is not None:
            self.write(variable)
        else:
            super().visit_Name(node, frame)

    def _read(self, node: nodes.Name, frame: Frame) -> str | None:
        """The variable that a name reads, where that has a value for certain."""
        variable = frame.symbols.ref(node.name)
        load = frame.symbols.find_load(variable)
        if load is not None and load[0] == VAR_LOAD_RESOLVE:
            self.outside_loads.add(id(node))
        return variable if variable in self._filled else None

    # Expressions

    def visit_And(self, node: nodes.BinExpr, frame: Frame) -> None:
        self._either(node, "and", frame)

    def visit_Or(self, node: nodes.BinExpr, frame: Frame) -> None:
        self._either(node, "or", frame)

    def _either(self, node: nodes.BinExpr, word: str, frame: Frame) -> None:
        self.write("(")
        self.visit(node.left, frame)
        self.write(f" {word} ")
        before = self._filled
        self._fill_by(node.left, word == "and", frame)
        self.visit(node.right, frame)
        self._filled = before
        self.write(")")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        read = self._read(node.node, frame) if type(node.node) is nodes.Name else None
        if read is not None:  # as most are, and in one piece
            self.write(f"attribute({read}, {node.attr!r})")
            return
        self.write("attribute(")
        self.visit(node.node, frame)
        self.write(f", {node.attr!r})")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if type(node.arg) is nodes.Slice:
            super().visit_Getitem(node, frame)
            return
        self.write("item(")
        self.visit(node.node, frame)
        self.write(", ")
        self.visit(node.arg, frame)
        self.write(")")

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        # Jinja hands on the variables of loops with a call, for functions that ask for a context:
        # there are none. What is named as Jinja names them it has to refuse.
        named_alike = node.dyn_kwargs is not None or any(_is_jinjas(each) for each in node.kwargs)
        if self._hands_on or forward_caller or named_alike:
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.write("call(context, ")
        self.visit(node.node, frame)
        self.signature(node, frame)
        self.write(")")

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
        elif type(node) is nodes.Not and template.span(node.node) != template.span(node):
            stack.append(node.node)
        elif node is not test:
            yield node


def leaves(printed: nodes.Expr) -> Iterator[nodes.Expr]:
    """The operands of a printed ``+`` or ``~`` chain, through inline ifs; else the whole."""
    stack: list[nodes.Expr] = [printed]
    while stack:
        node = stack.pop()
        if type(node) is nodes.Add:
            stack.extend((node.right, node.left))
        elif type(node) is nodes.Concat:
            stack.extend(reversed(node.nodes))
        elif type(node) is nodes.CondExpr:
            stack.extend(part for part in (node.expr2, node.expr1) if part is not None)
        else:
            yield node


#: Printed expressions that have leaves.
_CHAINS = frozenset({nodes.Add, nodes.Concat, nodes.CondExpr})


def _escapes(frame: Frame) -> bool:
    """Whether what is printed there may be escaped."""
    return bool(frame.eval_ctx.volatile or frame.eval_ctx.autoescape)


def _of_root(variables: frozenset[str]) -> frozenset[str]:
    """Python's variables that have some value until the rendering ends."""
    return frozenset(each for each in variables if each.startswith("l_0_") and each.isidentifier())


def _is_namespace(variable: str) -> str:
    """What is known, beside variables that have a value, of one that holds a namespace."""
    return f"{variable} is a namespace"


def _is_jinjas(argument: nodes.Keyword) -> bool:
    return argument.key in ("_loop_vars", "_block_vars")


@cache
def _visitor_of(kind: type[nodes.Node]) -> Callable[..., None]:
    """The method that visits a kind of node."""
    visitor = getattr(MarkingGenerator, f"visit_{kind.__name__}", MarkingGenerator.generic_visit)
    assert callable(visitor)
    return visitor
