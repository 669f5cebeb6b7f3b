"""vLLM's render server: its real renderer and its real parsers, with neither weights nor engine.

A request brings its own template, template kwargs and special tokens, so that one server, started
on a small model with Qwen3's tokenizer, renders every template there is.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from templatefix.source.template import TokenizerRef
from templatefix.tokens import Encoder, load_encoder
from tests import packages
from tests.corpus import corpus_directory
from tests.vllm.program import Program, free_port, running

NAME = "render"
#: Requests under way at once: while one is answered, the next is already read.
CONNECTIONS = 3
START_SECONDS = 420

#: No weights belong to it, for nothing is ever generated.
TINY_QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "dtype": "bfloat16",
}
#: Of reasoning and of calls.
PARSERS = ("qwen3", "hermes")


@dataclass(frozen=True)
class Reply:
    """An HTTP reply: its status and its JSON."""

    status: int
    body: Any

    @property
    def reason(self) -> str:
        """What a refusal says."""
        return str(self.body["error"]["message"])


@dataclass
class RenderServer:
    """A client of a running server. ``directory`` holds the model that it was started on."""

    port: int
    directory: Path
    _local: threading.local = field(default_factory=threading.local)

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        payload = json.dumps({"model": NAME, **body})
        try:
            return self._post(path, payload)
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            # The server hangs up on a connection that was idle for some seconds.
            self._local.connection = None
            return self._post(path, payload)

    def _post(self, path: str, payload: str) -> Reply:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            self._local.connection = connection
        connection.request("POST", path, payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Reply(response.status, json.loads(response.read()))

    def render(self, body: Mapping[str, Any]) -> Reply:
        """The reply whose ``token_ids`` are what the server would prefill for a chat request."""
        return self.post("/v1/chat/completions/render", body)

    def render_all(self, bodies: Iterable[Mapping[str, Any]]) -> Iterator[Reply]:
        """The replies in the order of the requests."""
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            yield from pool.map(self.render, bodies)

    def derender(
        self, request: Mapping[str, Any], prompt_ids: list[int], completion_ids: list[int]
    ) -> dict[str, Any]:
        """The assistant message that a client would get for a completion (no stop token)."""
        choice = {"index": 0, "token_ids": completion_ids, "finish_reason": "stop"}
        reply = self.post(
            "/v1/chat/completions/derender",
            {
                "chat_request": {"model": NAME, **request},
                "prompt_token_ids": prompt_ids,
                # From here parsers take what the prompt ends in, from there the first space.
                "generate_response": {
                    "request_id": "r",
                    "prompt_token_ids": prompt_ids,
                    "choices": [choice],
                },
            },
        )
        assert reply.status == 200, reply.body
        message: dict[str, Any] = reply.body["choices"][0]["message"]
        return message

    def text(self, token_ids: list[int]) -> str:
        """The text of token ids, as the server's own tokenizer spells it."""
        return str(self.post("/detokenize", {"tokens": token_ids}).body["prompt"])

    def encoder(self) -> Encoder:
        """Our encoder for the tokenizer that the server has."""
        path = self.directory / "tokenizer.json"
        return load_encoder(TokenizerRef(str(self.directory), self.directory, path))


def python_with_vllm() -> str:
    """The Python that has vLLM, or a skipped test."""
    python = os.environ.get("TEMPLATEFIX_VLLM_PYTHON", "/opt/vllm-venv/bin/python")
    if not Path(python).exists():
        pytest.skip(f"no Python with vLLM at {python} (tools/vllm_venv.sh makes one)")
    return python


def write_model(directory: Path) -> None:
    """A model directory: a tiny Qwen3's configuration beside Qwen3's real tokenizer."""
    corpus = corpus_directory()
    if corpus is not None:
        tokenizer = corpus / "tokenizers" / "qwen3"
    else:
        tokenizer = packages.or_skip(packages.qwen3_tokenizer)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, directory / name)
    (directory / "config.json").write_text(json.dumps(TINY_QWEN3))


@contextmanager
def rendering(
    python: str, directory: Path, home: Path, parsers: tuple[str, str] = PARSERS
) -> Iterator[RenderServer]:
    """The server on a free port of the loopback interface, ended at the end whatever happens."""
    port = free_port()
    command = [python, "-m", "vllm.entrypoints.cli.main", "launch", "render", str(directory)]
    command += ["--host=127.0.0.1", f"--port={port}", f"--served-model-name={NAME}"]
    command += ["--trust-request-chat-template", "--enable-auto-tool-choice"]
    command += [f"--reasoning-parser={parsers[0]}", f"--tool-call-parser={parsers[1]}"]
    program = Program("render", command, home)
    with running(program, lambda: _healthy(port), START_SECONDS):
        yield RenderServer(port, directory)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
