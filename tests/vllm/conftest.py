"""One render server for all the tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vllm.render_server import RenderServer, python_with_vllm, running, write_model


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RenderServer]:
    python = python_with_vllm()
    model = tmp_path_factory.mktemp("model")
    write_model(model)
    with running(python, model, tmp_path_factory.mktemp("home")) as server:
        yield server
