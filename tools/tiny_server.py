"""A vLLM to try ``templatefix verify`` on, on any machine: no GPU, no weights, no network.

    python tools/tiny_server.py DIRECTORY [--store mooncake [--prompts-only]] [-- COMMAND ...]

makes DIRECTORY, where it is missing: a tiny Qwen3 with the real tokenizer and the published
template, and two conversations, ``thinking.json`` and ``silent.json``, that say in ``extra_body``
what the model is to answer, since its weights are random. Then it serves the model as ``tiny`` on
port 8000, runs COMMAND beside it, and ends with the command's exit code.

``tools/vllm_venv.sh`` makes the Python that this needs (TEMPLATEFIX_VLLM_PYTHON). A store opens
ports on every interface; it runs, with the server and the command, in a network namespace that has
a loopback interface only, which takes root.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pytest

from tests import packages
from tests.vllm.chats import LONG_ANSWERS, Qwen3
from tests.vllm.engine import Setting, serving
from tests.vllm.namespace import NoNamespace, loopback_only
from tests.vllm.program import NotReady
from tests.vllm.render_server import python_with_vllm, write_model
from tests.vllm.stores import has_mooncake, mooncake

PORT = 8000


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--store", choices=["mooncake"])
    parser.add_argument(
        "--prompts-only", action="store_true", help="the store holds no answers (no write-back)"
    )
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    asked, command = parser.parse_args(given[:end]), given[end + 1 :]
    # A server that is told to stop ends what it has started first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if not asked.directory.exists():
            make(asked.directory)
        return serve(asked, command) if command else 0
    except (pytest.skip.Exception, NoNamespace, NotReady) as reason:
        print(reason, file=sys.stderr)
        return 2


def make(directory: Path) -> None:
    """The model's directory, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=directory.absolute().parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        write_model(made)
        template = packages.or_skip(packages.qwen3_template)
        (made / "chat_template.jinja").write_text(template, encoding="utf-8")
        qwen3 = Qwen3(made, Path(scratch))
        for name, kwargs in (("thinking", {}), ("silent", {"enable_thinking": False})):
            predicted = qwen3.predicted("published", LONG_ANSWERS, kwargs, "faithful")
            text = json.dumps(predicted.conversation(), ensure_ascii=False)
            (made / f"{name}.json").write_text(text, encoding="utf-8")
        made.rename(directory)


def serve(asked: argparse.Namespace, command: list[str]) -> int:
    python = python_with_vllm()
    setting = Setting()
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="tiny-server-"))
        home = Path(scratch) / "home"
        home.mkdir()
        if asked.store is not None:
            if (why_not := has_mooncake(python)) is not None:
                pytest.skip(why_not)
            namespace = stack.enter_context(loopback_only())
            write_back = not asked.prompts_only
            setting = stack.enter_context(mooncake(python, home, namespace, write_back))
        model = asked.directory.absolute()
        stack.enter_context(serving(python, model, home, setting, PORT))
        return subprocess.run(setting.command(command)).returncode


if __name__ == "__main__":
    sys.exit(main())
