"""The page of one report or of several, and the index of a folder of pages."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from templatefix.findings.outcome import Report
from templatefix.findings.repair import RepairReport
from templatefix.prefix import common_prefix
from templatefix.report.edition import Edition, gravest_first, place, short_place
from templatefix.report.figure.layout import PARTS
from templatefix.report.figure.reuse import bar, figure_of
from templatefix.report.kwargs import kwargs_text
from templatefix.report.markup import rendered
from templatefix.report.page.cost import CONTEXTS, TURNS
from templatefix.report.page.view import headline, target_view, told_verdict
from templatefix.report.text import Tally

_PATCH = "templatefix patch"
_USUAL_FILE = "chat_template.jinja"
_SCRIPT = (Path(__file__).parent / "index.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Row:
    """One report in an index: ``href`` leads to it, ``lost`` is that of its worst mode."""

    href: str
    name: str
    full_name: str
    sign: str
    verdict: str
    codes: tuple[str, ...]
    lost: int | None
    about: str
    repair: str


def page(reports: Sequence[Report], edition: Edition, *, index: str | None = None) -> str:
    """The page; ``index`` is the address of the index that it belongs to."""
    shown = [report for report in reports if report.skipped is None] or list(reports)
    views = [target_view(report, f"t{number}-") for number, report in enumerate(shown, start=1)]
    rows = _rows(shown, [f"#{view.key}top" for view in views]) if len(views) > 1 else []
    values = {
        "title": views[0].name if len(views) == 1 else Tally(shown).words(),
        "targets": views,
        "rows": rows,
        "edition": edition,
        "index": index,
        "parts": PARTS,
        "bar": bar,
        "contexts": CONTEXTS,
        "lengths": TURNS,
        "kwargs_text": kwargs_text,
    }
    return rendered("page.html.jinja", values)


def folder(reports: Sequence[Report], edition: Edition, index: str) -> dict[str, str]:
    """The files of a folder, by name: one that is called ``index``, and a page for each report."""
    shown = [report for report in reports if report.skipped is None]
    names = [_file_name(report) for report in shown]
    files = {
        name: page([report], edition, index=index)
        for name, report in zip(names, shown, strict=True)
    }
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    values = {
        "title": Tally(shown).words(),
        "rows": _rows(shown, names),
        "edition": edition,
        "script": Markup(_SCRIPT),  # our own file: nothing of a report is in it
        "script_digest": digest,
    }
    return {index: rendered("index.html.jinja", values), **files}


def _file_name(report: Report) -> str:
    """A name that any file system takes, and that no other report of the run has."""
    whole = f"{report.target}\0{place(report)}"
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    words = re.sub(r"[^A-Za-z0-9.]+", "-", _model(short_place(report)))[-60:].strip("-.")
    return f"{words or 'template'}-{digest}.html"


def _rows(reports: Sequence[Report], addresses: Sequence[str]) -> list[Row]:
    folder = _common_folder([report.display for report in reports])
    return [
        _row(report, address, folder) for report, address in zip(reports, addresses, strict=True)
    ]


def _common_folder(names: Sequence[str]) -> int:
    """How many characters all paths begin with in common, in whole folders."""
    folders = [name.split("/")[:-1] for name in names]
    if len(folders) < 2:
        return 0
    common = min(common_prefix(folders[0], each) for each in folders[1:])
    return sum(len(part) + 1 for part in folders[0][:common])


def _model(name: str) -> str:
    """A model is known by its folder."""
    return name.removesuffix(f"/{_USUAL_FILE}")


def _row(report: Report, address: str, folder: int) -> Row:
    name = place(report)
    sign, verdict, _ = told_verdict(report)
    findings = gravest_first(report.findings)
    telling = [each.code for each in findings if each.severity != "info"]
    if report.fault is not None:
        telling.insert(0, report.fault.code)
    panels = figure_of(report, name).panels
    return Row(
        address,
        _model(name[folder:]) or name,
        name,
        sign,
        verdict,
        tuple(dict.fromkeys(telling)),
        max((panel.lost for panel in panels), default=None),
        "~" if report.tokenizer_approximate else "",
        "; ".join(_repaired(each) for each in report.repairs) or _by_hand(report),
    )


def _repaired(repair: RepairReport) -> str:
    return f"{repair.policy}: {headline(repair)}"


def _by_hand(report: Report) -> str:
    """Where no repair was tried: a kwarg that a finding names, if one does."""
    if report.verdict != "breaks":
        return ""
    fixes = [each.fix.text for each in gravest_first(report.findings) if each.fix is not None]
    kwargs = [fix for fix in fixes if not fix.startswith(_PATCH)]
    return kwargs[0] if kwargs else f"{_PATCH} was not tried" if fixes else ""
