"""Whatever a server does, a check through it ends in one clear line and exit code 2."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from templatefix.cli.program import templatefix
from templatefix.errors import TargetError
from templatefix.render.vllm_server import VllmServer
from tests.example import EXAMPLE
from tests.served.fake import (
    DERENDER,
    RENDER,
    Trick,
    example,
    says,
    send,
    serving,
    tokenizer_alone,
)


def _ends(capsys: pytest.CaptureFixture[str], url: str, *more: str) -> str:
    """What the program says in the one line that it ends with."""
    args = ["check", str(EXAMPLE), "--isolated", "--no-search", "--server", url, *more]
    code = templatefix.main(args, standalone_mode=False)
    out, err = capsys.readouterr()
    assert code == 2, out + err
    assert err == ""
    (line,) = out.splitlines()
    return line.replace(url, "URL")


def _trickle(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then: no single read ever waits for long."""
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(1000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.02)
    except OSError:
        pass
    handler.close_connection = True


def _hangs_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def _raw(content: bytes) -> Trick:
    def trick(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(content)
        handler.close_connection = True

    return trick


def _moved(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "http://127.0.0.1:1/")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


HTML = "<html><body>It works!</body></html>"


@pytest.mark.parametrize(
    ("path", "trick", "words"),
    [
        ("/version", says(200, HTML), "something else than a JSON object"),
        ("/version", says(200, {"version": 3}), "names no version"),
        ("/version", says(404, HTML), "does not offer /version (HTTP 404)"),
        ("/version", says(200, "[" * 100_000), "something else than a JSON object"),
        ("/version", _raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "does not speak HTTP"),
        ("/version", _hangs_up, "the server hangs up"),
        ("/version", _moved, "sends /version elsewhere (HTTP 302) (give the final URL)"),
        ("/v1/models", says(200, {"data": []}), "lists no model"),
        ("/v1/models", says(200, {"data": [{"id": 7}, 7]}), "lists no model"),
        ("/v1/models", says(401, {"error": "Unauthorized"}), "wants an API key (HTTP 401)"),
        (RENDER, says(403, {"error": "Forbidden"}), "--enable-scale-out"),
        (RENDER, says(404, {"detail": "Not Found"}), f"does not offer {RENDER} (HTTP 404)"),
        (RENDER, says(502, HTML), "HTTP 502"),
        (RENDER, says(400, HTML), "HTTP 400"),
        (RENDER, says(200, HTML), "something else than a JSON object"),
        (RENDER, says(200, {"token_ids": "1 2 3"}), "without a list of token ids"),
        (RENDER, says(200, {"token_ids": [1, -2]}), "without a list of token ids"),
        (RENDER, says(200, {"token_ids": [1, True]}), "without a list of token ids"),
        (RENDER, _hangs_up, "the server hangs up"),
        (DERENDER, says(200, {"choices": []}), "without an assistant message"),
        (
            DERENDER,
            says(200, {"choices": [{"message": {"content": [1]}}]}),
            "without an assistant message",
        ),
        (
            DERENDER,
            says(200, {"choices": [{"message": {"tool_calls": [{"function": {}}]}}]}),
            "without an assistant message",
        ),
        ("/tokenize", says(200, {"tokens": [1, 2, 3]}), "its tokenizer is not that of 'served'"),
        ("/tokenize", says(200, {}), "without a list of token ids"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_one_line_says_what_is_wrong(
    path: str, trick: Trick, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = example(tricks={path: trick})
    with serving(fake) as url:
        assert words in _ends(capsys, url)


@contextmanager
def _silent() -> Iterator[str]:
    """A port where connections are taken and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_silent_server_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    with _silent() as url:
        line = _ends(capsys, url, "--server-timeout", "0.3")
    assert "URL: does not answer within 0.3 seconds" in line
    assert "--server-timeout" in line


def test_a_server_that_trickles_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(example(tricks={RENDER: _trickle})) as url:
        line = _ends(capsys, url, "--server-timeout", "0.5")
    assert "does not answer within 0.5 seconds" in line


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with _silent() as url:
        pass
    line = _ends(capsys, url)
    assert "URL: no server listens there" in line
    assert "--server auto" in line


@pytest.mark.parametrize(
    "url", ["nowhere", "ftp://127.0.0.1/", "http://", "http://[::1", "http://h:x"]
)
def test_what_is_no_url_is_said_to_be_none(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is no URL" in _ends(capsys, url)


def test_the_key_is_sent_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str | None] = []

    def guarded(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Authorization"])
        send(handler, 401, b'{"error": "Unauthorized"}')

    monkeypatch.setenv("TEMPLATEFIX_API_KEY", "very-secret")
    with serving(example(tricks={"/version": guarded})) as url:
        line = _ends(capsys, url)
    assert seen == ["Bearer very-secret"]
    assert "very-secret" not in line


def test_a_reply_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("templatefix.render.http_connection._MOST_BYTES", 1000)
    fake = example(tricks={"/version": says(200, "x" * 2000)})
    with serving(fake) as url, pytest.raises(TargetError, match="more than"):
        VllmServer(url)


def test_a_connection_that_was_idle_is_made_anew() -> None:
    fake = example()
    with serving(fake) as url:
        remote = VllmServer(url)
        first = remote.tokenize("Porto")
        fake.tricks["/detokenize"] = _hangs_up
        with pytest.raises(TargetError, match="hangs up"):
            remote.detokenize(first)
        del fake.tricks["/detokenize"]
        assert remote.detokenize(first) == "Porto"
        assert len(fake.connections) == 3  # the second attempt was made on a fresh one


def test_a_path_before_the_endpoints_is_kept() -> None:
    with serving(example()) as url:
        with pytest.raises(TargetError, match="does not offer /version"):
            VllmServer(url + "/proxy/")
        assert VllmServer(url + "/v1/").version == "0.32.0"


def test_a_crash_of_the_server_is_a_finding_and_not_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = example()
    answered = fake.reply

    def crashing(path: str, body: object) -> tuple[int, object]:
        if path == RENDER and "developer" in str(body):
            return 500, {"error": {"message": "KeyError: 'developer'", "type": "Internal"}}
        return answered(path, body)  # type: ignore[arg-type]

    fake.reply = crashing  # type: ignore[method-assign]
    target = tokenizer_alone(tmp_path)
    with serving(fake) as url:
        args = ["check", target, "--isolated", "--no-search", "--server", url]
        code = templatefix.main(args, standalone_mode=False)
    printed = capsys.readouterr().out
    assert code == 1
    assert "TF203" in printed
    assert "KeyError: 'developer'" in printed


def test_threads_of_the_timer_do_not_pile_up() -> None:
    with serving(example()) as url:
        remote = VllmServer(url)
        before = threading.active_count()
        for _ in range(50):
            remote.tokenize("Porto")
        assert threading.active_count() <= before + 2


@pytest.mark.parametrize(
    "args",
    [
        ["--server-args", "-x"],
        ["--server", "http://x", "--server-args", "-x"],
        ["--server-timeout", "3"],
    ],
)
def test_options_that_mean_nothing_alone_are_refused(args: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        templatefix.main(["check", str(EXAMPLE), *args])
    assert ended.value.code == 2
