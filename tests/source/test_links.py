"""Links in a circle and names that cannot be are answered like other paths that lead nowhere."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from templatefix.cli.program import templatefix
from templatefix.source.links import destination, followed
from tests.hostile.templates import PLAIN


@pytest.fixture
def circle(tmp_path: Path) -> Path:
    """A link to a link to itself."""
    circle = tmp_path / "circle.jinja"
    circle.symlink_to("other.jinja")
    (tmp_path / "other.jinja").symlink_to(circle.name)
    return circle


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(templatefix, [str(each) for each in args])


def test_a_path_is_followed_as_far_as_it_leads(tmp_path: Path, circle: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    assert followed(tmp_path / "link") == destination(tmp_path / "link") == tmp_path / "file"
    assert followed(circle).parent == tmp_path
    assert followed("a\0b") == Path.cwd() / "a\0b"
    with pytest.raises(OSError, match="symbolic links") as raised:
        destination(circle)
    assert raised.value.errno == errno.ELOOP


def test_a_circle_among_targets_is_one_line_and_the_others_are_checked(
    tmp_path: Path, circle: Path
) -> None:
    good = tmp_path / "good.jinja"
    good.write_text(PLAIN)
    ended = run("check", good, circle, "--max-examples", "0", "--output-format", "jsonl")
    first, second = map(json.loads, ended.stdout.splitlines())
    assert ended.exit_code == 2
    assert (first["verdict"], second["error"]["code"]) == ("preserving", "TF901")
    assert ended.stderr.startswith(f"templatefix: {circle}: cannot be read: Too many levels")


@pytest.mark.parametrize("args", [("check",), ("patch", "--diff"), ("survey",)])
def test_every_command_says_that_a_circle_leads_nowhere(
    circle: Path, args: tuple[str, ...]
) -> None:
    ended = run(*args, circle)
    assert ended.exit_code == 2
    assert "Too many levels of symbolic links" in ended.output


@pytest.mark.parametrize(
    "args",
    [
        ("patch", "--out", "CIRCLE"),
        ("patch", "--diff", "--report", "CIRCLE"),
        ("check", "--output", "CIRCLE"),
        ("check", "--resume", "CIRCLE"),
        ("check", "--baseline", "CIRCLE"),
        ("check", "--config", "CIRCLE"),
        ("survey", "--tokenizers", "CIRCLE"),
    ],
)
def test_no_option_follows_a_circle_or_replaces_it(
    tmp_path: Path, circle: Path, args: tuple[str, ...]
) -> None:
    target = tmp_path / "good.jinja"
    target.write_text(PLAIN)
    ended = run(args[0], target, *(str(circle) if arg == "CIRCLE" else arg for arg in args[1:]))
    assert (ended.exit_code, ended.exception.__class__) == (2, SystemExit)
    assert f"{circle}: " in ended.stderr
    assert "Too many levels of symbolic links" in ended.stderr
    assert circle.is_symlink()
