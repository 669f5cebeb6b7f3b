"""The figure as an SVG of its own, for light and dark."""

from __future__ import annotations

from templatefix.report.figure.layout import PARTS, drawings, stacked
from templatefix.report.figure.reuse import Figure
from templatefix.report.markup import rendered


def svg(figure: Figure) -> str:
    """The document as text that ends in a newline."""
    placed, width, height = stacked(drawings(figure))
    values = {
        "name": figure.name,
        "placed": placed,
        "width": width,
        "height": height,
        "parts": PARTS,
    }
    return rendered("figure.svg.jinja", values) + "\n"
