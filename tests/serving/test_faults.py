"""A server that dies, lies or hangs ends in one clear line; what was seen until then is kept."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from templatefix.cli.program import templatefix
from templatefix.errors import TargetError
from templatefix.findings.verification import Verification
from templatefix.serving.live import Security, VerifyOptions, verify
from templatefix.serving.live.wire import address_of
from tests.serving.loopback import PRESERVING, Manners, serving

KEY = "sk-a-very-secret-key"


@dataclass(frozen=True)
class Ended:
    """How the program ended."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], url: str, *arguments: str) -> Ended:
    code = templatefix.main(["verify", url, "--model", "tiny", *arguments], standalone_mode=False)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return Ended(code or 0, out, err)


def drive(manners: Manners, seconds: float = 20, **options: Any) -> Verification:
    with serving(manners) as loopback:
        return verify(loopback.url, VerifyOptions("tiny", seconds=seconds, **options))


WHOLE = {
    "dies-before": "the connection ended in the middle of /v1/chat/completions",
    "dies-midway": "the connection ended in the middle of /v1/chat/completions",
    "not-json": "the answer is not JSON",
    "html": "the answer is not JSON",
    "html-error": "answered 502: a page of HTML",
    "list": "the answer is not a JSON object",
    "crashes": "answered 500: EngineDeadError: the engine core died",
    "redirects": "it redirects, which is not followed",
    "huge": "the answer is longer than",
    "no-http": "does not speak HTTP",
    "cached-too-many": "are said to be cached",
    "cached-negative": "cached_tokens is -1, not a number of tokens",
    "cached-text": 'cached_tokens is "many", not a number of tokens',
    "no-usage": "the answer has no usage",
    "prompt-ids-short": "prompt_token_ids are",
    "completion-ids-short": "token_ids are",
    "ids-text": "prompt_token_ids is not a list of token ids",
    "no-choices": "the answer has no choices",
    "content-list": "the content of the answer is not text",
    "call-without-id": "the tool calls of the answer are not calls of functions",
}
STREAMED = {
    "dies-before": "the connection ended in the middle of /v1/chat/completions",
    "dies-midway": "the stream broke off before the answer was complete",
    "html": "the answer is not JSON",
    "crashes": "answered 500: EngineDeadError",
    "error-event": "the stream ended in an error: EngineDeadError",
    "endless": "the stream goes on after max_tokens",
    "endless-line": "the server sends events without end",
    "cached-too-many": "are said to be cached",
    "no-usage": "the answer has no usage",
    "prompt-ids-short": "prompt_token_ids are",
    "completion-ids-short": "token_ids are",
}


@pytest.mark.parametrize(
    ("streaming", "fault", "said"),
    [(False, *each) for each in WHOLE.items()] + [(True, *each) for each in STREAMED.items()],
)
@pytest.mark.parametrize("at", [1, 3])
def test_a_fault_is_told_in_one_line_and_ends_the_run(
    streaming: bool, fault: str, said: str, at: int
) -> None:
    # Neither endpoint may be asked again once the server turned out to be broken.
    manners = Manners(template=PRESERVING, fault=fault, at=at)
    with serving(manners) as loopback:
        options = VerifyOptions("tiny", streaming=streaming, max_tokens=40, seconds=20)
        verification = verify(loopback.url, options)
        assert loopback.chats == at, "nothing is sent after the fault"
    assert verification.fault is not None
    assert verification.fault.startswith(f"turn {at}: ")
    assert said in verification.fault
    assert "\n" not in verification.fault
    assert len(verification.fault) < 500
    assert len(verification.runs[0].turns) == at - 1, "what was seen until then is kept"


@pytest.mark.parametrize("fault", ["hangs", "drips"])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_server_that_hangs_or_drips_is_left_at_the_deadline(fault: str, streaming: bool) -> None:
    verification = drive(Manners(fault=fault), seconds=0.5, streaming=streaming)
    assert verification.fault is not None
    assert "was not answered within 0.5 s" in verification.fault
    assert "--timeout" in verification.fault


def test_a_figure_that_is_possible_but_not_true_is_a_difference() -> None:
    verification = drive(Manners(fault="cached-wrong", at=2, template=PRESERVING))
    assert verification.fault is None
    assert verification.preserving is True
    assert verification.agrees is False
    assert any("the counters" in note for note in verification.runs[0].notes)


def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for manners, code, last in (
        (Manners(template=PRESERVING), 0, "agree: "),
        (Manners(), 1, "agree: "),
        (Manners(template=PRESERVING, fault="cached-wrong"), 1, "differ in "),
        (Manners(fault="crashes", at=3), 2, "ended early: turn 3: answered 500"),
    ):
        with serving(manners) as loopback:
            ended = run(capsys, loopback.url)
        assert ended.code == code
        assert ended.out.rpartition("\n\n")[2].startswith(last)
        assert ended.err == "", "the report tells it"


@pytest.mark.parametrize("arguments", [["--output-format", "json"], ["--output", "FILE"]])
def test_a_fault_that_no_report_shows_is_told_on_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    arguments = [str(tmp_path / "report") if each == "FILE" else each for each in arguments]
    with serving(Manners(fault="crashes", at=3)) as loopback:
        ended = run(capsys, loopback.url, *arguments)
    assert ended.code == 2
    *wrote, told = ended.err.splitlines()
    assert wrote == ([f"wrote {arguments[1]}"] if "--output" in arguments else [])
    assert "turn 3: answered 500" in told


def test_a_report_that_cannot_be_written_is_refused_before_a_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = str(tmp_path / "no" / "report")
    with serving(Manners()) as loopback:
        words = ["verify", loopback.url, "--model", "tiny", "--output", output]
        with pytest.raises(SystemExit) as ended:
            templatefix.main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"templatefix: {output}: cannot be written: no such")
    assert not loopback.requests


def test_a_field_that_a_server_does_not_know_can_be_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(Manners(template=PRESERVING, strict=True)) as loopback:
        refused = run(capsys, loopback.url)
        ended = run(capsys, loopback.url, "--no-salt", "--no-token-ids")
    assert "--no-salt and --no-token-ids" in refused.err
    assert ended.code == 0


def test_nothing_to_compare_is_unusable(capsys: pytest.CaptureFixture[str]) -> None:
    blind = Manners(
        template=PRESERVING,
        token_ids=False,
        tokenize=False,
        detokenize=False,
        details=False,
        metrics=False,
    )
    with serving(blind) as loopback:
        ended = run(capsys, loopback.url)
    assert ended.code == 2
    assert ended.out.splitlines()[-1].startswith("not compared: ")
    assert "not seen: cached tokens" in ended.out


def test_a_refused_template_still_shows_the_served_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    candidate = tmp_path / "candidate.jinja"
    candidate.write_text(PRESERVING, "utf-8")
    with serving() as loopback:
        ended = run(capsys, loopback.url, "--template", str(candidate))
    assert ended.code == 2
    assert "served template, faithful client" in ended.out
    last = " ".join(ended.out.rpartition("\n\n")[2].split())
    assert "refuses the candidate template" in last
    assert "--trust-request-chat-template" in last


def test_the_candidate_decides_the_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    candidate = tmp_path / "candidate.jinja"
    candidate.write_text(PRESERVING, "utf-8")
    with serving(Manners(trusts_templates=True)) as loopback:
        ended = run(capsys, loopback.url, "--template", str(candidate))
    assert ended.code == 0
    assert "the candidate leaves" in ended.out


def test_the_key_is_sent_and_never_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Manners(key=KEY)) as loopback:
        good = run(capsys, loopback.url, "--api-key", KEY, "--output-format", "json")
        assert {headers["Authorization"] for *_, headers in loopback.requests} == {f"Bearer {KEY}"}
        monkeypatch.setenv("TEMPLATEFIX_API_KEY", KEY)
        assert run(capsys, loopback.url).code == 1
        monkeypatch.delenv("TEMPLATEFIX_API_KEY")
        without = run(capsys, loopback.url)
        # The server repeats the key that it refuses.
        wrong = run(capsys, loopback.url, "--api-key", "sk-a-wrong-secret-key")
    assert good.code == 1
    assert without.code == wrong.code == 2
    assert "refuses the key" in wrong.err
    assert "--api-key" in wrong.err
    for ended in (good, without, wrong):
        assert "secret" not in ended.out + ended.err


def test_a_key_for_another_server_is_not_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving() as loopback:
        run(capsys, loopback.url)
        assert all("Authorization" not in headers for *_, headers in loopback.requests)


def test_the_proxy_of_the_environment_is_used_but_not_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving() as proxy, serving() as loopback:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert verify("http://elsewhere.invalid/v1", VerifyOptions("tiny")).fault is None
        assert "http://elsewhere.invalid:80/v1/chat/completions" in proxy.proxied
        proxied = len(proxy.proxied)
        assert verify(loopback.url, VerifyOptions("tiny")).fault is None
        assert len(proxy.proxied) == proxied


def test_a_model_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Manners(model="other")) as loopback:
        ended = run(capsys, loopback.url)
    assert ended.code == 2
    assert "The model `tiny` does not exist" in ended.err


def test_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        ended = run(capsys, f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert ended.code == 2
    assert "nothing listens there" in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://127.0.0.1", "not the URL of an HTTP server"),
        ("http://127.0.0.1:99999", "not a URL"),
        ("http://127.0.0.1:x", "not a URL"),
        ("http://", "not the URL of an HTTP server"),
        ("http://user:secret@127.0.0.1", "holds a user name or a password"),
        ("http://127.0.0.1/?a=b", "not the URL of an HTTP server"),
        ("http://127.0.0.1/a b", "not the URL of an HTTP server"),
    ],
)
def test_a_url_that_cannot_be_used(capsys: pytest.CaptureFixture[str], url: str, said: str) -> None:
    ended = run(capsys, url)
    assert ended.code == 2
    assert said in ended.err
    assert "secret" not in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://host/proxy/v1", "https://host:443/proxy"),
        ("https://host/v1/chat/completions", "https://host:443"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    assert address_of(url).shown == shown


@pytest.mark.parametrize("streaming", [False, True])
def test_no_field_of_an_answer_can_cause_a_traceback(streaming: bool) -> None:
    """Every value of a good answer is replaced by each of a few that do not belong there."""
    from templatefix.serving.live.reply import Contradiction, reply_of, reply_of_events
    from tests.serving.loopback import Loopback, events

    loopback = Loopback(Manners(sglang=True))
    tools = [{"type": "function", "function": {"name": "f"}}]
    messages = [{"role": "user", "content": "?"}]
    answer = loopback.answer({"messages": messages, "tools": tools, "return_token_ids": True})
    document: Any = list(events(answer)) if streaming else answer
    places = list(_places(document))
    assert len(places) > 20
    for place in places:
        for wrong in (None, "text", -1, 1.5, True, [], {}, [None], {"a": None}):
            spoilt = _with(document, place, wrong)
            try:
                if streaming:
                    reply_of_events((json.dumps(event) for event in spoilt), 10**6)
                else:
                    reply_of(spoilt)
            except Contradiction:
                pass


def _places(value: Any, place: tuple[Any, ...] = ()) -> Any:
    yield place
    items: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list):
        items = list(enumerate(value))[:3]
    for key, each in items:
        yield from _places(each, (*place, key))


def _with(value: Any, place: tuple[Any, ...], wrong: Any) -> Any:
    if not place:
        return [wrong] if isinstance(value, list) else wrong
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = wrong if len(place) == 1 else _with(value[place[0]], place[1:], wrong)
    return copy


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody has signed, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate")
    directory = tmp_path_factory.mktemp("tls")
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=loopback", "-keyout", str(key)),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def test_tls(
    capsys: pytest.CaptureFixture[str], certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(*certificate)
    with serving(Manners(template=PRESERVING), own) as loopback:
        assert run(capsys, loopback.url, "--ca", str(certificate[0])).code == 0
        assert run(capsys, loopback.url, "--insecure", "--stream").code == 0
        untrusted = run(capsys, loopback.url)
        plain = run(capsys, loopback.url.replace("https", "http"))
        missing = run(capsys, loopback.url, "--ca", str(tmp_path / "none.pem"))
    with serving() as loopback:
        unencrypted = run(capsys, loopback.url.replace("http", "https"))
    assert untrusted.code == plain.code == missing.code == unencrypted.code == 2
    assert "certificate is not trusted" in untrusted.err
    assert "--ca" in untrusted.err
    assert "cannot be read" in missing.err
    assert "no TLS connection" in unencrypted.err


def test_a_key_that_no_header_may_hold() -> None:
    with pytest.raises(TargetError, match="no HTTP header may hold"):
        verify("127.0.0.1:9", VerifyOptions("tiny", security=Security("a\r\nX-Other: b")))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--turns", "1"], "--turns"),
        (["--kwargs", "[]"], "--kwargs"),
        (["--extra-body", "{"], "--extra-body"),
        (["--ca", "a", "--insecure"], "exclude each other"),
        (["--template", "nowhere.jinja"], "no such file"),
        (["--conversation", "nowhere.json"], "no such file"),
    ],
)
def test_options_that_cannot_be_used_send_nothing(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with serving() as loopback:
        ended = run(capsys, loopback.url, *arguments)
        assert loopback.requests == []
    assert ended.code == 2
    assert said in ended.err


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"role": "assistant", "content": "x"}], "an answer to nothing"),
        ([{"role": "user", "content": "x", "extra_body": []}], "extra_body is not an object"),
    ],
)
def test_a_conversation_that_cannot_be_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, messages: list[Any], said: str
) -> None:
    file = tmp_path / "conversation.json"
    file.write_text(json.dumps({"messages": messages}), "utf-8")
    with serving() as loopback:
        ended = run(capsys, loopback.url, "--conversation", str(file))
        assert loopback.requests == []
    assert ended.code == 2
    assert said in ended.err
