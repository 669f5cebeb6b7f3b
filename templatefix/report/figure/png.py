"""The figure as a PNG, for papers and places that show no SVG; needs matplotlib."""

from __future__ import annotations

import warnings
from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from templatefix.report.figure.layout import PARTS, Drawing, Part, drawings
from templatefix.report.figure.reuse import Figure
from templatefix.report.visible import visible

_FILL: dict[Part, str] = {"reused": "#1f5fae", "again": "#d9541e", "new": "#d4d8de"}
_INK: dict[Part, str] = {"reused": "white", "again": "white", "new": "black"}
#: No meaning by colour alone.
_HATCH: dict[Part, str] = {"reused": "", "again": "////", "new": ""}
_DOTS_PER_INCH, _UNITS_PER_INCH = 200, 80


def png(figure: Figure) -> bytes:
    """The picture, 200 dots an inch, black on white."""
    panels = drawings(figure)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    height = max(each.height for each in panels) * rows + 60
    canvas = Canvas(
        figsize=(columns * panels[0].width * 1.1 / _UNITS_PER_INCH, height / _UNITS_PER_INCH),
        dpi=_DOTS_PER_INCH,
        layout="constrained",
    )
    canvas.suptitle(_plain(figure.name), fontsize=11)
    places = canvas.subplots(rows, columns, squeeze=False)
    for number, place in enumerate(places.flat):
        if number < len(panels):
            _panel(place, panels[number])
        else:
            place.set_axis_off()
    handles, labels = places.flat[0].get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    named = {says: known[says] for _, says in PARTS if says in known}
    canvas.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=3, fontsize=8
    )
    picture = BytesIO()
    with warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box: that is said by the box.
        warnings.filterwarnings("ignore", "Glyph")
        canvas.savefig(picture, format="png")
    return picture.getvalue()


def _panel(place: Axes, drawing: Drawing) -> None:
    heights = [row.y for row in drawing.rows]
    says = dict(PARTS)
    for row in drawing.rows:
        start = 0
        for segment in row.segments:
            place.barh(
                row.y,
                segment.tokens,
                drawing.bar,
                left=start,
                color=_FILL[segment.part],
                edgecolor="black",
                linewidth=0.3,
                hatch=_HATCH[segment.part],
                label=says[segment.part],
            )
            if segment.fits:
                middle = start + segment.tokens / 2
                ink = _INK[segment.part]
                number = place.text(middle, row.y, str(segment.tokens), color=ink, fontsize=7)
                number.set(ha="center", va="center")
                if segment.part == "again":
                    ground = {"facecolor": "#8c2c05", "edgecolor": "none", "pad": 0.8}
                    number.set_bbox(ground)
            start += segment.tokens
    place.set_title(f"{_plain(drawing.subtitle)}\n{_plain(drawing.title)}", loc="left", fontsize=9)
    place.set_yticks(heights, [_plain(row.label) for row in drawing.rows], fontsize=7)
    place.invert_yaxis()
    place.set_xlim(0, drawing.longest * 1.02)
    place.set_xticks([tokens for _, tokens in drawing.ticks])
    place.tick_params(axis="x", labelsize=7)
    place.set_xlabel("tokens of the prompt", fontsize=7)
    place.spines[["top", "right"]].set_visible(False)


def _plain(text: str) -> str:
    """Text that matplotlib takes for no formula."""
    return visible(text).replace("$", r"\$")
