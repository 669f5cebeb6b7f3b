"""Where pages and figures go, and what is asked of a check for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from templatefix.cli import pages
from tests.cli.stub import Stub
from tests.report.page_samples import Markup, full
from tests.report.samples import clean, unreadable

NEVER = ("--fail-on", "never", "--isolated")


def test_a_page_goes_to_standard_output(stub: Stub) -> None:
    ended = stub({"a.jinja": full()})("check", "a.jinja", "--output-format", "html", *NEVER)
    assert ended.exit_code == 0, ended.output
    assert Markup(ended.stdout).count("h1") == 1


def test_several_targets_make_one_file_or_a_folder(stub: Stub, tmp_path: Path) -> None:
    program = stub({"a.jinja": full(), "b.jinja": clean()})
    told = ("check", "a.jinja", "b.jinja", "--output-format", "html", *NEVER, "--output")
    assert program(*told, str(tmp_path / "all.html")).exit_code == 0
    assert Markup((tmp_path / "all.html").read_text("utf-8")).count("h1") == 3
    ended = program(*told, str(tmp_path / "site"))
    assert ended.exit_code == 0
    assert ended.stderr == f"wrote {tmp_path / 'site'}: index.html and 2 pages\n"
    names = sorted(path.name for path in (tmp_path / "site").iterdir())
    assert len(names) == 3
    assert "index.html" in names
    assert program(*told, str(tmp_path / "site")).exit_code == 0


@pytest.mark.parametrize(
    ("output_format", "name"),
    [
        ("html", "site"),
        ("html", "page.html"),
        ("json", "report.json"),
        ("jsonl", "lines.jsonl"),
        ("text", "report"),
    ],
)
def test_no_folder_is_made_but_that_of_the_pages(
    stub: Stub, tmp_path: Path, output_format: str, name: str
) -> None:
    program = stub({"a.jinja": full()})
    output = tmp_path / "new" / name
    told = ("check", "a.jinja", "--output-format", output_format, *NEVER, "--output", str(output))
    ended = program(*told)
    assert ended.exit_code == 2
    assert f"{output}: cannot be written: no such directory (create it first)" in ended.stderr
    assert not program.calls
    assert not output.parent.exists()
    output.parent.mkdir()
    assert program(*told).exit_code == 0


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
@pytest.mark.parametrize(
    "options",
    [
        ("--output-format", "html", "--output", "/proc/site"),
        ("--output-format", "sarif", "--output", "/proc/report.sarif"),
        ("--plot", "/proc/figure.svg"),
        ("--write-baseline", "/proc/baseline.json"),
    ],
)
def test_a_place_that_takes_no_file_is_refused_before_the_work(
    stub: Stub, options: tuple[str, ...]
) -> None:
    program = stub({"a.jinja": full()})
    ended = program("check", "a.jinja", *NEVER, *options)
    assert ended.exit_code == 2
    assert f"{options[-1]}: cannot be written: " in ended.stderr
    assert not program.calls


def test_the_index_of_another_site_is_not_overwritten(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<h1>mine</h1>", encoding="utf-8")
    told = ("check", "a.jinja", "--output-format", "html", *NEVER, "--output", str(tmp_path))
    program = stub({"a.jinja": full()})
    ended = program(*told)
    assert ended.exit_code == 2
    assert "is not an index that templatefix wrote" in ended.stderr
    assert not program.calls, "this is known before anything is checked"
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


@pytest.mark.parametrize(
    ("options", "policies"),
    [
        (("--output-format", "html"), ("lossless", "keep-reasoning")),
        (("--output-format", "html", "--policy", "lossless"), ("lossless",)),
        (("--output-format", "html", "--no-recover"), ()),
        (("--output-format", "json"), ()),
        ((), ()),
    ],
)
def test_a_page_shows_the_repairs_that_it_is_asked_for(
    stub: Stub, options: tuple[str, ...], policies: tuple[str, ...]
) -> None:
    program = stub({"a.jinja": full()})
    program("check", "a.jinja", *NEVER, *options)
    (call,) = program.calls
    assert call.options.repair_under == policies
    assert call.options.full == ("html" in options)


def test_a_figure_is_drawn_beside_the_report(stub: Stub, tmp_path: Path) -> None:
    figure = tmp_path / "figure.svg"
    program = stub({"models/a.jinja": full()})
    ended = program("check", "models/a.jinja", *NEVER, "--plot", str(figure))
    assert ended.exit_code == 0, ended.output
    assert "TF102" in ended.stdout
    assert ended.stderr == f"wrote {figure}\n"
    assert "models/a.jinja</title>" in figure.read_text("utf-8")
    assert program.calls[0].options.repair_under == ("lossless", "keep-reasoning")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("a.jinja", "--plot", "out.pdf"), "name a .svg or .png file"),
        (("a.jinja", "b.jinja", "--plot", "out.svg"), "--plot draws one target"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_is_checked(
    stub: Stub, arguments: tuple[str, ...], why: str
) -> None:
    program = stub({})
    ended = program("check", *arguments, *NEVER)
    assert ended.exit_code == 2
    assert why in ended.stderr
    assert not program.calls


def test_a_png_needs_its_library(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    ended = stub({})("check", "a.jinja", *NEVER, "--plot", str(tmp_path / "out.png"))
    assert ended.exit_code == 2
    assert "pip install 'templatefix[plot]'" in ended.stderr


def test_a_target_without_conversations_has_no_figure(stub: Stub, tmp_path: Path) -> None:
    figure = tmp_path / "figure.svg"
    silent = full(runs=(), findings=(), verdict="not-evaluated", repairs=())
    ended = stub({"a.jinja": silent})("check", "a.jinja", *NEVER, "--plot", str(figure))
    assert ended.exit_code == 2
    assert "nothing was drawn" in ended.stderr
    program = stub({"a.jinja": unreadable("a.jinja")})
    ended = program("check", "a.jinja", *NEVER, "--plot", str(figure))
    assert ended.exit_code == 2
    assert "no such file" in ended.stdout
    assert not figure.exists()
