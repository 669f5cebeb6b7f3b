"""Imports point one way: from the command line down to the files, never up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "templatefix"

#: From low to high. What stands in one row may not point to a row below it in this table.
ROWS = (
    ("errors", "prefix", "policy", "limits"),
    ("source",),
    ("syntax", "render", "tokens"),
    ("chat",),
    ("dialect",),
    ("replay",),
    ("findings",),
    ("rules",),
    ("settings", "selection", "suppress", "baseline", "report"),
    ("checking", "patching", "serving", "ready"),
    ("api",),
    ("worker", "library"),
    ("testing",),
    ("cli", "__main__"),
)
HEIGHT = {name: height for height, row in enumerate(ROWS) for name in row}

#: These know nothing of one another, though they stand in one row.
STRANGERS = {"syntax", "render", "tokens"}
#: ... but that a template is parsed once: what is rendered and traced is that tree.
PARSED = ("render", "syntax")

#: Reports are made of values alone, and of a comparison of two, so that no format can come to
#: depend on how they arise.
VALUES = {"errors", "findings", "prefix", "report", "templatefix.source.template"}


@dataclass(frozen=True)
class Arrow:
    """One import: dotted module names, and the line where it is written."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def arrows(package: Path) -> Iterator[Arrow]:
    """Every import within the package, late ones and those for type checking included."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = parts[:-1] if is_package else parts
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for target in _imported(node, module if is_package else module[:-1], package):
                if target[0] == package.name:
                    yield Arrow(".".join(module), ".".join(target), node.lineno)


def _imported(
    node: ast.Import | ast.ImportFrom, here: tuple[str, ...], package: Path
) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ast.Import):
        yield from (tuple(alias.name.split(".")) for alias in node.names)
    else:
        base = here[: len(here) + 1 - node.level] if node.level else ()
        base += tuple(node.module.split(".")) if node.module else ()
        for alias in node.names:
            name = package.parent.joinpath(*base, alias.name)
            is_module = name.is_dir() or name.with_suffix(".py").is_file()
            yield (*base, alias.name) if is_module else base


def faults(found: Iterator[Arrow]) -> list[str]:
    """What is wrong with these arrows, in words."""
    return [f"{arrow}: {fault}" for arrow in found if (fault := _fault(arrow))]


def _fault(arrow: Arrow) -> str | None:
    importer, imported = _part(arrow.importer), _part(arrow.imported)
    if imported is None or importer == imported:
        return None
    if importer is None:
        return None if imported == "library" else "the package itself imports the library alone"
    for part in (importer, imported):
        if part not in HEIGHT:
            return f"{part} has no place in the order yet: give it one in {Path(__file__).name}"
    if importer == "report" and not {imported, arrow.imported} & VALUES:
        return "a report depends on value types only"
    if HEIGHT[imported] > HEIGHT[importer]:
        return "an upward arrow"
    if {importer, imported} <= STRANGERS and (importer, imported) != PARSED:
        return f"{importer} and {imported} do not know one another"
    return None


def _part(module: str) -> str | None:
    """The part of the package that a module belongs to; None for the package itself."""
    return module.split(".")[1] if "." in module else None


def test_no_import_points_upward() -> None:
    assert faults(arrows(PACKAGE)) == []


def test_the_package_is_read() -> None:
    found = {(arrow.importer, arrow.imported) for arrow in arrows(PACKAGE)}
    assert ("templatefix.tokens.loading", "templatefix.errors") in found
    assert ("templatefix.tokens", "templatefix.tokens.seam") in found


@pytest.mark.parametrize(
    ("file", "statement", "fault"),
    [
        ("source/hub.py", "from templatefix.tokens import Encoder", "upward"),
        ("chat/battery.py", "import templatefix.api", "upward"),
        ("chat/battery.py", "def late():\n    from templatefix import checking", "upward"),
        ("tokens/split.py", "from ..render import jinja", "do not know"),
        ("render/jinja.py", "from templatefix.syntax import spans", None),
        ("syntax/spans.py", "from templatefix.render import jinja", "do not know"),
        ("render/trace.py", "from templatefix.syntax import spans", None),
        ("syntax/generator.py", "from templatefix.syntax import spans", None),
        ("render/trace.py", "from templatefix.tokens import Encoder", "do not know"),
        ("report/text.py", "from templatefix.findings import Finding", None),
        ("report/text.py", "from templatefix.source.template import ChatTemplate", None),
        ("report/text.py", "from templatefix.source.hub import snapshot", "value types"),
        ("report/text.py", "from templatefix.rules import all_rules", "value types"),
        ("cli/check.py", "from templatefix.api import check", None),
        ("helpers.py", "from templatefix import errors", "no place"),
        ("source/hub.py", "from . import paths\nfrom templatefix import __version__", None),
        ("__init__.py", "from . import api", "the library alone"),
        ("__init__.py", "from templatefix.library import load", None),
    ],
)
def test_an_upward_arrow_is_found(
    tmp_path: Path, file: str, statement: str, fault: str | None
) -> None:
    package = tmp_path / "templatefix"
    for name in ("source", "tokens", "render", "syntax", "chat", "findings", "report", "cli"):
        (package / name).mkdir(parents=True)
    for name in ("errors", "checking", "api", "library"):
        (package / f"{name}.py").touch()
    (package / file).write_text(statement, "utf-8")
    found = faults(arrows(package))
    assert len(found) == (fault is not None)
    assert fault is None or fault in found[0]
