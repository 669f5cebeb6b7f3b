"""A vLLM server with an engine: a tiny random model that answers as it is told to."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.vllm.program import Program, free_port, running

NAME = "tiny"
#: The smallest that attention on a CPU takes.
BLOCK = 32
START_SECONDS = 420
RESET_SECONDS = 20

_FLAGS = (
    *("--host=127.0.0.1", f"--served-model-name={NAME}"),
    *("--load-format=dummy", "--dtype=bfloat16", "--enforce-eager"),
    *("--max-model-len=4096", "--max-num-seqs=4"),
    *(f"--block-size={BLOCK}", "--enable-prefix-caching", "--enable-prompt-tokens-details"),
    *("--reasoning-parser=qwen3", "--tool-call-parser=hermes", "--enable-auto-tool-choice"),
    "--trust-request-chat-template",
    "--logits-processors=scripted:Scripted",
)


@dataclass(frozen=True)
class Setting:
    """Where an engine runs and what stands beside it: added flags and environment.

    ``command`` turns a command into the one that runs it there, ``connect`` reaches it.
    """

    command: Callable[[Sequence[str]], Sequence[str]] = lambda command: command
    connect: Callable[[int], socket.socket] = lambda port: socket.create_connection(
        ("127.0.0.1", port), timeout=120
    )
    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Served:
    """A chat completion: the assistant message, the token ids on both sides, and the cache's part.

    ``completion_ids`` end with the stop token. ``cached`` are tokens of the prompt.
    """

    message: dict[str, Any]
    prompt_ids: list[int]
    completion_ids: list[int]
    finish_reason: str
    cached: int


@dataclass(frozen=True)
class Counters:
    """Tokens that were looked up and found so far, in the server's own cache and in the store's."""

    local_queries: int
    local_hits: int
    external_queries: int
    external_hits: int


@dataclass(frozen=True)
class Engine:
    """A client of a running server."""

    port: int
    connect: Callable[[int], socket.socket]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """The status and the body of a reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.sock = self.connect(self.port)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def healthy(self) -> bool:
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def chat(self, request: Mapping[str, Any], answer_ids: Sequence[int]) -> Served:
        """The reply to a request that the model answers with ``answer_ids``."""
        body = {
            "model": NAME,
            "temperature": 0,
            "max_tokens": len(answer_ids) + 1,
            "return_token_ids": True,
            "vllm_xargs": {"answer_ids": list(answer_ids)},
            **request,
        }
        status, reply = self.ask("POST", "/v1/chat/completions", body)
        assert status == 200, reply
        served = json.loads(reply)
        (choice,) = served["choices"]
        details = served["usage"]["prompt_tokens_details"] or {}
        return Served(
            choice["message"],
            served["prompt_token_ids"],
            choice["token_ids"],
            choice["finish_reason"],
            details.get("cached_tokens") or 0,
        )

    def forget(self, store: bool = False) -> None:
        """Empty the server's own cache and, with ``store``, the store behind it.

        The server refuses while blocks of it are still on their way to the store.
        """
        query = "?reset_external=true" if store else ""
        deadline = time.monotonic() + RESET_SECONDS
        while True:
            status, reply = self.ask("POST", f"/reset_prefix_cache{query}")
            assert status == 200, reply
            if json.loads(reply)["success"]:
                return
            assert time.monotonic() < deadline, "the server's cache does not become free"
            time.sleep(0.1)

    def counters(self) -> Counters:
        status, reply = self.ask("GET", "/metrics")
        assert status == 200
        totals: dict[str, int] = {}
        for line in reply.decode().splitlines():
            if line.startswith("vllm:") and "_cache_" in line:
                name, value = line.split("{")[0], line.rsplit(" ", 1)[1]
                totals[name] = totals.get(name, 0) + round(float(value))
        return Counters(
            totals["vllm:prefix_cache_queries_total"],
            totals["vllm:prefix_cache_hits_total"],
            totals.get("vllm:external_prefix_cache_queries_total", 0),
            totals.get("vllm:external_prefix_cache_hits_total", 0),
        )


@contextmanager
def serving(
    python: str, model: Path, home: Path, setting: Setting, port: int | None = None
) -> Iterator[Engine]:
    """An engine on a port (a free one) of the loopback interface, with its log in ``home``.

    ``model`` has a configuration and a tokenizer; its weights are random.
    """
    shutil.copy(Path(__file__).parent / "scripted.py", home)
    port = port or free_port()
    command = [python, "-m", "vllm.entrypoints.openai.api_server", f"--model={model}"]
    command += [f"--port={port}", *_FLAGS, *setting.flags]
    environment = {
        "PYTHONPATH": str(home),
        "VLLM_CACHE_ROOT": str(home.parent / "vllm-cache"),  # what the next start need not repeat
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_HOST_IP": "127.0.0.1",  # else it looks for a way out of the machine
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one process less for the engine
        "VLLM_SERVER_DEV_MODE": "1",  # brings /reset_prefix_cache
        **setting.environment,
    }
    engine = Engine(port, setting.connect)
    program = Program("vllm", setting.command(command), home, environment)
    with running(program, engine.healthy, START_SECONDS):
        yield engine
