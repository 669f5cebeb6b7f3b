"""The Python code that Jinja makes of a template, and what it finds out about names on the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from io import StringIO
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.idtracking import VAR_LOAD_RESOLVE

from templatefix.syntax.template import Template


@dataclass(frozen=True)
class Code:
    """A template's code, for any environment that has our extensions.

    ``undeclared`` are the names that are looked up outside of the template, as
    ``jinja2.meta.find_undeclared_variables`` lists them; ``outside_loads`` the identities of the
    nodes that do so.
    """

    source: str
    undeclared: frozenset[str]
    outside_loads: frozenset[int]


@lru_cache(maxsize=64)
def code_of(template: Template) -> Code:
    """Generate a template's code. No expression of the template is evaluated.

    Raises ``RecursionError``, and ``jinja2.TemplateAssertionError`` for what parses and yet does
    not compile, such as a block that is defined twice.
    """
    assert template.ast.environment is not None
    stream = StringIO()
    generator = _Generator(template.ast.environment, None, None, stream, optimized=False)
    generator.visit(template.ast)
    return Code(
        stream.getvalue(), frozenset(generator.undeclared), frozenset(generator.outside_loads)
    )


class _Generator(CodeGenerator):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.undeclared: set[str] = set()
        self.outside_loads: set[int] = set()

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> None:
        # As NodeVisitor.visit does, without a further call: the stack must hold as deep a tree.
        visitor = getattr(self, method_of(type(node)), None) or self.generic_visit
        visitor(node, *args, **kwargs)

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
        # Jinja would evaluate what it takes for constant. That can be a bomb, and whoever
        # generates code here has set no limits.
        if not isinstance(node, (nodes.TemplateData, nodes.Const)):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)


@cache
def method_of(kind: type[nodes.Node]) -> str:
    """The name of the method with which Jinja's visitors visit a kind of node."""
    return f"visit_{kind.__name__}"
