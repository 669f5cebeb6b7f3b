"""The render server of a check: one that runs already, or one that is started for it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import prepare
from templatefix.errors import TargetError
from templatefix.render import SyntaxFault
from templatefix.render.vllm_server import VllmServer
from templatefix.serving.model_directory import model_directory
from templatefix.serving.options import AUTO, ServerOptions
from templatefix.serving.renderers import HARMONY, Renderer, names_mode, renderer_of
from templatefix.serving.vllm_python import VllmPython, find_vllm
from templatefix.source.template import ChatTemplate
from templatefix.syntax import Unparsable

_GUARD = Path(__file__).with_name("guard.py")
_STOP_SECONDS = 10.0
#: Only what lies on this disk is served, and nobody is told of it.
_ENVIRONMENT = dict.fromkeys(
    ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"), "1"
)
_LOG_LINES = 3


@contextlib.contextmanager
def render_server(
    template: ChatTemplate, check: CheckOptions, wanted: ServerOptions
) -> Iterator[VllmServer]:
    """The server that renders for a check of ``template``. Raises ``TargetError``.

    One that was started here has ended, with all that it started itself, when the block is left,
    and when this program ends in any other way.
    """
    with contextlib.ExitStack() as stack:
        url = wanted.url
        if url == AUTO:
            url = stack.enter_context(_started(template, check, wanted))
        remote = VllmServer(url, api_key=wanted.api_key, timeout=wanted.timeout)
        stack.callback(remote.close)
        yield remote


@contextlib.contextmanager
def _started(template: ChatTemplate, check: CheckOptions, wanted: ServerOptions) -> Iterator[str]:
    """The URL of a render server on a free port of the loopback interface."""
    if not hasattr(os, "killpg"):
        hint = "start vllm launch render elsewhere, and name its URL"
        raise TargetError(f"--server {AUTO}", "vLLM does not run on this system", hint)
    python = find_vllm()
    with tempfile.TemporaryDirectory(prefix="templatefix-") as name:
        scratch = Path(name)
        port = _free_port()
        command = [python.path, "-m", "vllm.entrypoints.cli.main", "launch", "render"]
        renderer = renderer_of(template, wanted.arguments)
        directory = model_directory(template, scratch, renderer)
        command += [str(directory), "--host=127.0.0.1", f"--port={port}"]
        if renderer is not None:
            command += _mode(renderer, wanted.arguments)
        elif not _is_its_own(template, directory):
            command += _template_file(template, scratch)
        command += [*_parsers(template, check, renderer), *wanted.arguments]
        log = scratch / "server.log"
        server = _start(command, python, scratch, log)
        try:
            _wait(server, port, log, wanted.start_timeout)
            yield f"http://127.0.0.1:{port}"
        finally:
            _end(server)


def _mode(renderer: Renderer, arguments: Sequence[str]) -> list[str]:
    if renderer is HARMONY or names_mode(arguments):
        return []
    return [f"--tokenizer-mode={renderer.mode}"]


def _start(
    command: Sequence[str], python: VllmPython, scratch: Path, log: Path
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **_ENVIRONMENT, "VLLM_CONFIG_ROOT": str(scratch / "config")}
    environment["VLLM_CACHE_ROOT"] = str(scratch / "cache")
    # Our own path is of no use to another Python.
    kept = os.environ.get("PYTHONPATH") if python.path == sys.executable else None
    paths = [*python.python_path(scratch), *filter(None, [kept])]
    environment.pop("PYTHONPATH", None)
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, str(_GUARD), *command],
            env=environment,
            cwd=scratch,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_its_own(template: ChatTemplate, directory: Path) -> bool:
    """Whether the server finds the template by itself, and chooses it as it always does."""
    path = template.path
    return template.name is None and path is not None and path.absolute().parent == directory


def _template_file(template: ChatTemplate, scratch: Path) -> list[str]:
    if not template.text:
        return []
    file = scratch / "chat_template.jinja"
    file.write_bytes(template.text.encode("utf-8", "surrogatepass"))
    return [f"--chat-template={file}"]


def _parsers(
    template: ChatTemplate, check: CheckOptions, renderer: Renderer | None = None
) -> list[str]:
    """The flags for the parsers that were named, else for those that the template calls for.

    Those of a ``renderer`` that is not Jinja are known.
    """
    reasoning, tool = check.reasoning_parser, check.tool_call_parser
    if renderer is not None:
        reasoning, tool = reasoning or renderer.parsers[0], tool or renderer.parsers[1]
    elif template.text and not (reasoning and tool):
        try:
            inferred = prepare(template, check).author.parsers
        except (Unparsable, SyntaxFault):
            inferred = None  # the check says so
        if inferred is not None:
            reasoning = reasoning or (inferred.reasoning.name if inferred.reasoning else None)
            tool = tool or (inferred.tool.flag if inferred.tool else None)
    flags = [f"--reasoning-parser={reasoning}"] if reasoning else []
    if tool:
        flags += ["--enable-auto-tool-choice", f"--tool-call-parser={tool}"]
    return flags


def _wait(server: subprocess.Popen[bytes], port: int, log: Path, seconds: float) -> None:
    """Until the server is healthy."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise _not_started(f"vLLM ended with exit code {server.returncode}", log)
        if _is_healthy(port):
            return
        time.sleep(0.2)
    raise TargetError(
        f"--server {AUTO}",
        f"vLLM is not ready after {seconds:g} seconds",
        "start it with vllm launch render, and give its URL",
    )


def _is_healthy(port: int) -> bool:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _not_started(what: str, log: Path) -> TargetError:
    """The error, with the last that vLLM said of one."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.strip() for line in lines if "Error" in line or "error:" in line]
    said = " ".join((errors or [line.strip() for line in lines if line.strip()])[-_LOG_LINES:])
    message = f"{what}: {said[-600:]}" if said else what
    return TargetError(f"--server {AUTO}", message, "vllm launch render may need --server-args")


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server and what it started: it leads a process group of its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        if number == signal.SIGTERM:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(_STOP_SECONDS)
    server.wait()
    if server.stdin is not None:
        server.stdin.close()
