"""A model hub on the loopback interface, for the real huggingface_hub client.

It serves the routes that the client uses and can misbehave in each way that a target's message
must name. ``HubServer`` is a context manager; its ``endpoint`` goes into ``HF_ENDPOINT``.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Repository:
    """A model repository: files by name, for each revision; and how the server treats it.

    ``status`` answers every request with that HTTP status and ``error_code``. ``token`` is the
    only one that may read. ``hang`` is ``"listing"``, ``"head"`` or ``"body"``: that request never
    ends. ``headers`` replace those of file answers. ``listing`` is False for a mirror that serves
    files alone. ``after`` file requests are answered well before ``headers`` and ``hang`` apply.
    ``instead`` answers a request in its own way, or returns False; the path that it is given begins
    with ``resolve/`` for a file.
    """

    files: Mapping[str, bytes]
    revisions: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    status: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    token: str | None = None
    hang: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after: int = 0
    listing: bool = True
    instead: Callable[[BaseHTTPRequestHandler, str], bool] | None = None

    def at(self, revision: str) -> Mapping[str, bytes] | None:
        if revision in ("main", commit_of(self.files)):
            return self.files
        for name, files in self.revisions.items():
            if revision in (name, commit_of(files)):
                return files
        return None


def commit_of(files: Mapping[str, bytes]) -> str:
    """A commit id that depends on the files, as on a real hub."""
    digest = hashlib.sha1(usedforsecurity=False)
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name])
    return digest.hexdigest()


@dataclass(frozen=True)
class Request:
    """What the client asked for."""

    method: str
    path: str
    token: str | None


class HubServer:
    """Serves repositories by id until the ``with`` block ends."""

    def __init__(self, repositories: Mapping[str, Repository]) -> None:
        self.repositories = dict(repositories)
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HubServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def files_asked_for(self) -> list[str]:
        """Names of the files that were sent, in order."""
        return [
            request.path.split("/resolve/", 1)[1].split("/", 1)[1]
            for request in self.requests
            if request.method == "GET" and "/resolve/" in request.path
        ]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                return None

            def do_HEAD(self) -> None:
                self._answer()

            def do_GET(self) -> None:
                self._answer()

            def _answer(self) -> None:
                path = unquote(urlsplit(self.path).path)
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
                hub.requests.append(Request(self.command, path, token))
                try:
                    _serve(hub, self, path, token)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        return Handler

    def hang(self) -> None:
        """Hold a request until the server closes."""
        self.closing.wait(120)


def _serve(hub: HubServer, handler: BaseHTTPRequestHandler, path: str, token: str | None) -> None:
    api = path.startswith("/api/models/")
    name = path.removeprefix("/api/models/") if api else path.removeprefix("/")
    match = next(
        (
            key
            for key in sorted(hub.repositories, key=len, reverse=True)
            if name == key or name.startswith(f"{key}/")
        ),
        None,
    )
    if match is None:
        return _refuse(handler, 401 if api else 404, "RepoNotFound", "Repository not found")
    repository, rest = hub.repositories[match], name.removeprefix(match).removeprefix("/")
    if repository.token is not None and token != repository.token:
        return _refuse(handler, 403 if token else 401, "GatedRepo", "Access is restricted")
    if repository.status is not None:
        return _refuse(handler, repository.status, repository.error_code, repository.error_message)
    if repository.instead is not None and repository.instead(handler, rest):
        return None
    if api:
        return _listing(hub, handler, match, repository, rest)
    if not rest.startswith("resolve/"):
        return _refuse(handler, 404, None, None)
    revision, _, file = rest.removeprefix("resolve/").partition("/")
    return _file(hub, handler, repository, revision, file)


def _listing(
    hub: HubServer,
    handler: BaseHTTPRequestHandler,
    name: str,
    repository: Repository,
    rest: str,
) -> None:
    if repository.hang == "listing":
        return hub.hang()
    if not repository.listing:
        return _refuse(handler, 404, None, None)
    revision = rest.removeprefix("revision/") if rest.startswith("revision/") else "main"
    files = repository.at(revision)
    if files is None:
        return _refuse(handler, 404, "RevisionNotFound", "Invalid rev id")
    siblings = [{"rfilename": file} for file in sorted(files)]
    body = {"id": name, "sha": commit_of(files), "siblings": siblings, "tags": []}
    return _send(handler, 200, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _file(
    hub: HubServer,
    handler: BaseHTTPRequestHandler,
    repository: Repository,
    revision: str,
    file: str,
) -> None:
    asked = sum("/resolve/" in request.path for request in hub.requests)
    misbehaves = asked > repository.after
    if misbehaves and repository.hang == "head" and handler.command == "HEAD":
        return hub.hang()
    files = repository.at(revision)
    if files is None:
        return _refuse(handler, 404, "RevisionNotFound", "Invalid rev id")
    if file not in files:
        commit = {"X-Repo-Commit": commit_of(files)}
        return _refuse(handler, 404, "EntryNotFound", "Entry not found", commit)
    body = files[file]
    blob = hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
    headers = {"ETag": f'"{blob}"', "X-Repo-Commit": commit_of(files)}
    if misbehaves:
        headers |= repository.headers
    if misbehaves and repository.hang == "body" and handler.command == "GET":
        handler.send_response(200)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(key, value)
        handler.end_headers()
        for byte in body:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            if hub.closing.wait(0.5):
                return None
    return _send(handler, 200, body, headers)


def _refuse(
    handler: BaseHTTPRequestHandler,
    status: int,
    code: str | None,
    message: str | None,
    more: Mapping[str, str] | None = None,
) -> None:
    headers = dict(more or {})
    if code:
        headers["X-Error-Code"] = code
    if message:
        headers["X-Error-Message"] = message
    if status == 429:
        headers["Retry-After"] = "300"
    _send(handler, status, json.dumps({"error": message or "error"}).encode(), headers)


def _send(
    handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str]
) -> None:
    handler.send_response(status)
    for key, value in headers.items():
        handler.send_header(key, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


@dataclass(frozen=True)
class Outcome:
    """What a fresh process found, said, and took (seconds)."""

    templates: list[dict[str, Any]]
    errors: list[dict[str, str]]
    printed: str
    seconds: float


_PROGRAM = """
import json, os, sys
from templatefix.errors import TargetError
from templatefix.source import SourceOptions, load_each
target, options = json.loads(sys.argv[1])
found = {"templates": [], "errors": []}
for each in load_each(target, SourceOptions(**options)):
    if isinstance(each, TargetError):
        found["errors"].append({"target": each.target, "message": each.message, "hint": each.hint})
    else:
        found["templates"].append({
            "display": each.display, "name": each.name, "text": each.text,
            "special_tokens": dict(each.special_tokens),
            "stop_token_ids": list(each.stop_token_ids),
            "tokenizer": each.tokenizer and each.tokenizer.source,
            "tokenizer_files": each.tokenizer and sorted(os.listdir(each.tokenizer.directory)),
            "attention": each.attention, "format": each.format,
        })
with open(sys.argv[2], "w") as answer:
    json.dump(found, answer)
"""


def environment_of(cache: Path) -> dict[str, str]:
    """Of a process with a hub cache of its own, and nothing else that steers the hub's client."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("HF_", "HUGGINGFACE_", "TRANSFORMERS_"))
        and "proxy" not in key.lower()
    }
    return {**kept, "HF_HOME": str(cache), "PYTHONPATH": str(ROOT)}


def load_in_process(
    target: str, home: Path, environment: Mapping[str, str] | None = None, **options: Any
) -> Outcome:
    """Load a target as a user does: a new process, its own hub cache under ``home``."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {**environment_of(home / "hf"), "NO_PROXY": "*"}
    answer = home / "answer.json"
    answer.unlink(missing_ok=True)
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps([target, options]), str(answer)],
        env={**kept, **(environment or {})},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    seconds = time.monotonic() - started
    printed = process.stdout + process.stderr
    assert process.returncode == 0, printed
    found = json.loads(answer.read_text())
    return Outcome(found["templates"], found["errors"], printed, seconds)
