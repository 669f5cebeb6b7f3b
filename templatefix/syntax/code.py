"""The Python code that Jinja makes of a template, and what it finds out about names on the way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import nodes

from templatefix.syntax.generator import BEGIN, END, PLAIN_BEGIN, PLAIN_END, MarkingGenerator
from templatefix.syntax.template import Template

_TRACING = re.compile(f"{BEGIN}[^{END}]*{END}")
_PLAIN = re.compile(f"{PLAIN_BEGIN}[^{PLAIN_END}]*{PLAIN_END}")


@dataclass(frozen=True)
class Code:
    """A template's code, for environments with the extensions, filters and tests that we parse by.

    ``marked`` is the code with marks around what reports on a rendering, and around what such code
    does without: see :class:`MarkingGenerator`, for the nodes too.
    ``undeclared`` are the names that are looked up outside of the template, as
    ``jinja2.meta.find_undeclared_variables`` lists them; ``outside_loads`` the identities of the
    nodes that do so.
    """

    marked: str
    undeclared: frozenset[str]
    outside_loads: frozenset[int]
    nodes: tuple[nodes.Node, ...]

    @property
    def plain(self) -> str:
        """The code that renders, and no more."""
        return _TRACING.sub("", self.marked).replace(PLAIN_BEGIN, "").replace(PLAIN_END, "")

    @property
    def traced(self) -> str:
        """The code that reports to the environment's ``recorder`` while it renders."""
        return _PLAIN.sub("", self.marked).replace(BEGIN, "").replace(END, "")


@lru_cache(maxsize=8)
def code_of(template: Template) -> Code:
    """Generate a template's code. No expression of the template is evaluated.

    Raises ``RecursionError``, and ``jinja2.TemplateAssertionError`` for what parses and yet does
    not compile, such as a block that is defined twice.
    """
    generator = MarkingGenerator(template)
    generator.visit(template.ast)
    return Code(
        generator.output.getvalue(),
        frozenset(generator.undeclared),
        frozenset(generator.outside_loads),
        tuple(generator.nodes),
    )
