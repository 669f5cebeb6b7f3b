"""A command imports what it needs and no more: start-up time is what a linter is judged by."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.serving.loopback import PRESERVING, Manners, serving

EXAMPLE = Path(__file__).parents[1] / "templatefix" / "example"

#: Writes down each module that a command comes to import, and its children, which are forked.
_RUN = """
import os
import sys
class Told:
    def find_spec(self, name, path=None, target=None):
        os.write(told, f"{name}\\n".encode())
told = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sys.meta_path.insert(0, Told())
from templatefix.cli import main
main()
"""


def imported_by(*arguments: str) -> set[str]:
    """The top-level modules that a command of ours has imported by its end, output piped."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        ran = subprocess.run(
            [sys.executable, "-c", _RUN, str(told), *arguments],
            cwd=EXAMPLE.parents[1],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return {name.partition(".")[0] for name in told.read_text().split()}


def test_help_imports_click_and_nothing_heavy() -> None:
    modules = imported_by("--help")
    heavy = "jinja2 rich tokenizers huggingface_hub transformers hypothesis gguf numpy requests"
    assert "click" in modules
    assert not modules & set(heavy.split())


def test_a_check_of_one_file_imports_no_more_than_it_needs() -> None:
    template = EXAMPLE / "chat_template.jinja"
    modules = imported_by("check", "--no-search", "--isolated", "--fail-on", "never", str(template))
    heavy = "rich huggingface_hub transformers hypothesis gguf numpy requests httpx httpx2 tomllib"
    assert {"jinja2", "tokenizers"} <= modules
    assert not modules & set(heavy.split())


def test_only_the_search_imports_hypothesis() -> None:
    template = EXAMPLE / "chat_template.jinja"
    modules = imported_by("check", "--max-examples", "1", "--fail-on", "never", str(template))
    heavy = "rich huggingface_hub transformers gguf numpy requests httpx httpx2"
    assert "hypothesis" in modules
    assert not modules & set(heavy.split())


@pytest.mark.parametrize("module", ["templatefix", "templatefix.tokens", "templatefix.source"])
def test_a_package_imports_nothing_heavy_by_itself(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=EXAMPLE.parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {
        "rich",
        "tokenizers",
        "huggingface_hub",
        "transformers",
        "hypothesis",
        "gguf",
        "jinja2",
    }
    assert not heavy & set(ran.stdout.split())


def test_driving_a_server_loads_no_tokenizer_and_no_client_of_the_hub() -> None:
    with serving(Manners(template=PRESERVING)) as loopback:
        modules = imported_by("verify", loopback.url, "--model", "tiny")
    heavy = "rich tokenizers huggingface_hub transformers hypothesis gguf numpy requests httpx2"
    assert not modules & set(heavy.split())
