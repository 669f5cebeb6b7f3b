"""Where pages and figures go: one file, or a folder with an index."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from templatefix.cli.output import (
    expect_room,
    expect_writable,
    tell_written,
    write_file,
    write_stdout,
)
from templatefix.errors import TargetError
from templatefix.findings.outcome import Report
from templatefix.policy import POLICIES
from templatefix.report.edition import Edition, short_place
from templatefix.settings import Settings

#: The file of a folder of pages that leads to the others, and what each of them says of itself.
INDEX, GENERATOR = "index.html", '<meta name="generator" content="templatefix">'
#: The endings of figures that can be drawn.
FIGURES = (".svg", ".png")


def repaired_under(settings: Settings) -> tuple[str, ...]:
    """The policies under which a page or a figure shows a repair."""
    shown = settings.output_format == "html" or settings.plot is not None
    if not shown or not settings.recover:
        return ()
    return POLICIES if settings.policy is None else (settings.policy,)


def expect_drawable(path: str) -> None:
    """Raises TargetError where a figure cannot be written, before anything takes time."""
    if Path(path).suffix.lower() not in FIGURES:
        raise TargetError(path, "no figure has this ending", f"name a {' or '.join(FIGURES)} file")
    if path.lower().endswith(".png") and find_spec("matplotlib") is None:
        hint = "pip install 'templatefix[plot]', or name a .svg file"
        raise TargetError(path, "a PNG is drawn by matplotlib, which is not installed", hint)


def expect_place(output: str) -> None:
    """Raises TargetError where pages cannot be written, or would overwrite what is not ours.

    A folder of pages is made where it is missing, but none around it.
    """
    place = Path(output)
    if _is_file(place):
        expect_writable(output)
        return
    _expect_ours(place / INDEX)
    expect_room(output, place if place.exists() else place.absolute().parent)


def write_pages(
    reports: Sequence[Report], output: str | None, edition: Edition, *, quiet: bool
) -> None:
    """One page about all of them, or a folder of pages where ``output`` is no ``.html`` file.

    Raises TargetError.
    """
    from templatefix.report.page.page import folder, page

    if output is None:
        write_stdout(page(reports, edition))
        return
    place = Path(output)
    if _is_file(place):
        write_file(output, page(reports, edition))
        tell_written(output, quiet=quiet)
        return
    _expect_ours(place / INDEX)
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise TargetError(output, f"cannot be made: {error.strerror}", "name another") from None
    files = folder(reports, edition, INDEX)
    # The index comes last: what it leads to is there then.
    for name in sorted(files, key=lambda name: name == INDEX):
        write_file(str(place / name), files[name])
    others = len(files) - 1
    tell_written(output, quiet=quiet, more=f": {INDEX} and {others} page{'s' * (others != 1)}")


def _is_file(place: Path) -> bool:
    if place.exists():
        return not place.is_dir()
    return place.suffix.lower() in (".html", ".htm")


def _expect_ours(index: Path) -> None:
    """Raises TargetError where a folder holds another site's index."""
    try:
        ours = GENERATOR in index.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise TargetError(str(index), f"cannot be read: {error.strerror}") from None
    if not ours:
        why = "is not an index that templatefix wrote, and would be overwritten"
        raise TargetError(str(index), why, "name another folder")


def write_figure(reports: Sequence[Report], path: str) -> None:
    """Draw the one report that has something to draw. Raises TargetError."""
    from templatefix.report.figure.reuse import figure_of

    figures = [figure_of(report, short_place(report)) for report in reports]
    drawable = [figure for figure in figures if figure.panels]
    if not drawable:
        raise TargetError(path, "nothing was drawn: no conversation of several turns was run")
    if len(drawable) > 1:
        why = f"a figure shows one template, and {len(drawable)} were checked"
        raise TargetError(path, why, "name one of them")
    if path.lower().endswith(".png"):
        from templatefix.report.figure.png import png

        write_file(path, png(drawable[0]))
    else:
        from templatefix.report.figure.svg import svg

        write_file(path, svg(drawable[0]))
