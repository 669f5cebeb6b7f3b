"""All the ways in which a hub fails, in one run of the program with the real client: each is a line
with a next step, none keeps the others from being checked."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.templates import PLAIN
from tests.hub import HubServer, Repository, commit_of, environment_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

#: Seconds that each target's files may take.
LIMIT = 6.0

FILES = {"chat_template.jinja": PLAIN.encode(), "config.json": b"{}"}

Handler = BaseHTTPRequestHandler
Answer = Callable[[Handler, str], bool]


def _send(handler: Handler, status: int, body: bytes, **headers: str) -> bool:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
    return True


def listing(body: bytes, **headers: str) -> Answer:
    """The list of files is something else."""

    def answer(handler: Handler, path: str) -> bool:
        return not path.startswith("resolve/") and _send(handler, 200, body, **headers)

    return answer


def file(body: bytes, status: int = 200, **headers: str) -> Answer:
    """Each file is something else."""

    def answer(handler: Handler, path: str) -> bool:
        return path.startswith("resolve/") and _send(handler, status, body, **headers)

    return answer


def at_first(times: int, status: int, **headers: str) -> Answer:
    """So many requests fail, and all others do not."""
    left = [times]

    def answer(handler: Handler, path: str) -> bool:
        if left[0] == 0:
            return False
        left[0] -= 1
        return _send(handler, status, b"{}", **headers)

    return answer


def reset(handler: Handler, path: str) -> bool:
    """The connection is torn down instead of an answer."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True
    os.close(handler.connection.detach())
    raise ConnectionResetError


def cut(handler: Handler, path: str) -> bool:
    """Files end in the middle, however often they are asked for."""
    if not path.startswith("resolve/") or handler.command == "HEAD":
        return False
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(PLAIN)))
    handler.end_headers()
    handler.wfile.write(PLAIN.encode()[:20])
    handler.wfile.flush()
    handler.close_connection = True
    return True


def endless(path_begins: str) -> Answer:
    """A body in chunks, without end."""

    def answer(handler: Handler, path: str) -> bool:
        if path.startswith("resolve/") != path_begins.startswith("resolve/"):
            return False
        if handler.command == "HEAD":
            return False
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        while True:
            handler.wfile.write(chunk)

    return answer


def circle(handler: Handler, path: str) -> bool:
    return _send(handler, 307, b"", Location=handler.path)


_NAMES = b'{"id": "x", "sha": "%s", "siblings": [{"rfilename": %s}]}'
_BOMB = gzip.compress(b" " * 2**27)

#: Target -> how it fails, what is said of it, and the next step.
FAILING: Mapping[str, tuple[Repository, str, str]] = {
    "org/html": (
        Repository(FILES, instead=listing(b"<html>log in</html>", Content_Type="text/html")),
        "its list of files cannot be read .JSONDecodeError",
        "check HF_ENDPOINT and the proxy",
    ),
    "org/bytes": (Repository(FILES, instead=listing(b"\xff\xfe\xfd")), "cannot be read", "proxy"),
    "org/array": (Repository(FILES, instead=listing(b"[1]")), "cannot be read", "HF_ENDPOINT"),
    "org/number": (
        Repository(FILES, instead=listing(b'{"id": "x", "siblings": 3}')),
        "cannot be read",
        "HF_ENDPOINT",
    ),
    "org/deep": (
        Repository(FILES, instead=listing(b"[" * 100_000)),
        "cannot be read .RecursionError",
        "HF_ENDPOINT",
    ),
    "org/nul": (
        Repository(FILES, instead=listing(_NAMES % (b"a" * 40, b'"\\u0000.tiktoken"'))),
        "neither a chat template nor a tokenizer",
        "--chat-template",
    ),
    "org/bomb": (
        Repository(FILES, instead=listing(_BOMB, Content_Encoding="gzip")),
        "sends an answer without end",
        "HF_ENDPOINT",
    ),
    "org/flood": (
        Repository(FILES, instead=endless("api")),
        "sends an answer without end",
        "HF_ENDPOINT",
    ),
    "org/portal": (
        Repository(FILES, instead=file(b"<html>log in</html>", ETag='"a"')),
        "does not answer as a hub does",
        "check HF_ENDPOINT and the proxy",
    ),
    "org/no-etag": (
        Repository(FILES, instead=file(b"{}", X_Repo_Commit="a" * 40)),
        "does not answer as a hub does",
        "HF_ENDPOINT",
    ),
    "org/half": (
        Repository(
            FILES,
            instead=file(PLAIN[:30].encode(), X_Repo_Commit="a" * 40, ETag=f'"{"b" * 40}"'),
        ),
        "the server sent a part of chat_template.jinja, or something else in its place",
        "HF_ENDPOINT",
    ),
    "org/cut": (Repository(FILES, instead=cut), "(no answer from|broke: peer closed)", "--offline"),
    "org/reset": (Repository(FILES, instead=reset), "the connection to", "--offline"),
    "org/circle": (Repository(FILES, instead=circle), "redirects without end", "HF_ENDPOINT"),
    "org/ftp": (
        Repository(
            FILES, instead=file(b"", 302, Location="ftp://x/", ETag='"a"', X_Repo_Commit="a" * 40)
        ),
        "redirects to what is no web address",
        "HF_ENDPOINT",
    ),
    "org/404": (Repository(FILES, status=404), "not found on", "check the id"),
    "org/401": (Repository(FILES, status=401), "HTTP 401", "HF_TOKEN"),
    "org/403": (Repository(FILES, status=403), "HTTP 403", "HF_TOKEN"),
    "org/disabled": (
        Repository(FILES, status=403, error_message="Access to this resource is disabled."),
        "disabled",
        "another repository",
    ),
    "org/408": (Repository(FILES, status=408), "HTTP 408", "try again later"),
    "org/429": (Repository(FILES, status=429), "HTTP 429", "--network-timeout"),
    "org/500": (Repository(FILES, status=500), "HTTP 500", "try again later"),
    "org/silent": (Repository(FILES, hang="listing"), "no answer from", "--offline"),
    "org/slow": (Repository(FILES, hang="body"), "no answer from", "--offline"),
    "org/path": (
        Repository(FILES, headers={"ETag": '"../../stray"'}),
        "not a plain name",
        "HF_ENDPOINT",
    ),
}

#: Targets that fail at first, or answer in a way of their own, and are checked all the same.
CHECKED: Mapping[str, Repository] = {
    "org/fine": Repository(FILES),
    "org/after-503": Repository(FILES, instead=at_first(2, 503)),
    "org/after-429": Repository(FILES, instead=at_first(1, 429, Retry_After="1")),
    "org/after-502": Repository(FILES, instead=at_first(1, 502)),
}


_CHECK = ["check", "--no-search", "--targets-from", "-", "--output-format", "jsonl"]
_CHECK += ["--network-timeout", str(LIMIT)]


@dataclass(frozen=True)
class Ended:
    """One run of the program: its lines by target, the rest that it said, and what it took."""

    lines: Mapping[str, dict[str, Any]]
    stderr: str
    code: int
    seconds: float
    home: Path


def run(home: Path, targets: list[str], environment: Mapping[str, str], *options: str) -> Ended:
    kept = environment_of(home / "a" / "b" / "hf")
    begun = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "templatefix", *_CHECK, *options],
        input="\n".join(targets),
        env={**kept, **environment},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    seconds = time.monotonic() - begun
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["target"] for line in lines] == targets, ended.stderr
    by_target = {line["target"]: line for line in lines}
    return Ended(by_target, ended.stderr, ended.returncode, seconds, home)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    repositories = {name: repository for name, (repository, *_) in FAILING.items()}
    with HubServer({**repositories, **CHECKED}) as hub:
        home = tmp_path_factory.mktemp("home")
        targets = [*FAILING, *CHECKED]
        environment = {"HF_ENDPOINT": hub.endpoint, "NO_PROXY": "*"}
        yield run(home, targets, environment, "--jobs", "8")


@pytest.mark.parametrize("target", FAILING)
def test_each_failure_is_one_line_with_a_next_step(target: str, ended: Ended) -> None:
    _, message, hint = FAILING[target]
    error = ended.lines[target]["error"]
    assert error["code"] == "TF901"
    assert re.search(message, error["message"])
    assert hint in error["hint"]
    assert "\n" not in error["message"] + error["hint"]
    assert ended.stderr.count(f"templatefix: {target}: ") == 1


@pytest.mark.parametrize("target", CHECKED)
def test_the_others_are_checked_and_what_is_busy_is_asked_again(target: str, ended: Ended) -> None:
    assert ended.lines[target]["error"] is None
    assert ended.lines[target]["verdict"] == "preserving"


def test_the_run_ends_in_time_and_leaves_nothing_behind(ended: Ended) -> None:
    assert ended.code == 2
    assert ended.stderr.count("\n") == len(FAILING)
    assert "Traceback" not in ended.stderr
    assert not list(ended.home.rglob("*stray*"))
    assert not [blob for blob in ended.home.rglob("b" * 40) if "half" in str(blob)]


def test_files_come_through_a_proxy_and_from_where_they_are_redirected_to(
    tmp_path: Path,
) -> None:
    content = FILES["chat_template.jinja"]

    def elsewhere(handler: Handler, path: str) -> bool:
        if not path.endswith("/chat_template.jinja"):
            return False
        if path.startswith("resolve/cdn/"):
            return _send(handler, 200, content)
        return _send(
            handler,
            302,
            b"",
            Location="http://cdn.invalid/org/away/resolve/cdn/chat_template.jinja",
            X_Linked_Size=str(len(content)),
            X_Linked_ETag='"etag-of-a-store"',
            X_Repo_Commit=commit_of(FILES),
        )

    with HubServer({"org/away": Repository(FILES, instead=elsewhere)}) as hub:
        environment = {"HF_ENDPOINT": "http://hub.invalid", "HTTP_PROXY": hub.endpoint}
        found = run(tmp_path, ["org/away"], environment)
        assert found.lines["org/away"]["verdict"] == "preserving"
        asked = len(hub.requests)
        assert asked > 2
        offline = run(tmp_path, ["org/away", "org/other"], environment, "--offline")
        assert len(hub.requests) == asked
    assert offline.lines["org/away"]["verdict"] == "preserving"
    assert offline.lines["org/other"]["error"]["message"] == "not in the local hub cache"
    assert offline.code == 2
    gone = run(tmp_path / "a", ["org/away"], {**environment, "HTTP_PROXY": "http://127.0.0.1:9"})
    error = gone.lines["org/away"]["error"]
    assert "hub.invalid" in error["message"]
    assert "proxy" in error["hint"].lower()
