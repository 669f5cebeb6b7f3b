"""The servers of this directory's tests, each started once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm.chats import Qwen3
from tests.vllm.engine import Engine, Setting, serving
from tests.vllm.namespace import Namespace, NoNamespace, loopback_only
from tests.vllm.render_server import RenderServer, python_with_vllm, rendering, write_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory: a configuration beside a real tokenizer."""
    directory = tmp_path_factory.mktemp("model")
    write_model(directory)
    return directory


@pytest.fixture(scope="session")
def vllm_server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RenderServer]:
    """vLLM's renderer and parsers, without an engine."""
    with rendering(python_with_vllm(), model, tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A server with an engine and its own cache, and no store behind it."""
    python = python_with_vllm()
    with serving(python, model, tmp_path_factory.mktemp("engine"), Setting()) as engine:
        yield engine


@pytest.fixture(scope="session")
def qwen3(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Qwen3:
    return Qwen3(model, tmp_path_factory.mktemp("templates"))


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    try:
        with loopback_only() as namespace:
            yield namespace
    except NoNamespace as reason:
        pytest.skip(str(reason))
