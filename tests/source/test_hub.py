"""Hub targets: the real huggingface_hub client in a fresh process against a loopback hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from templatefix.source.hub_errors import explain
from tests.hub import HubServer, Repository, commit_of, load_in_process
from tests.packages import Unavailable, qwen3_template

OWN_TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
TOKEN = "hf_only_this_one"


def template_text() -> str:
    """A real template where a registry can be reached, else our own."""
    try:
        return qwen3_template()
    except Unavailable:
        return OWN_TEMPLATE


def model_files(template: str) -> dict[str, bytes]:
    return {
        "README.md": b"# A model",
        "chat_template.jinja": template.encode(),
        "tokenizer_config.json": json.dumps({"eos_token": "<|im_end|>"}).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
        "vocab.json": b"{}",
        "generation_config.json": b'{"eos_token_id": [7, 8]}',
        "config.json": b'{"sliding_window": 4096}',
        "model.safetensors": b"weights",
        "pytorch_model.bin": b"weights",
        "modeling_own.py": b"raise SystemExit('a file of a repository was executed')",
    }


@pytest.fixture
def hub() -> Iterator[HubServer]:
    files = model_files(template_text())
    named = {
        **files,
        "additional_chat_templates/tool_use.jinja": b"tools{{ messages }}",
        "additional_chat_templates/deeper/no.jinja": b"no{{ messages }}",
    }
    slow = {name: content for name, content in files.items() if name != "tokenizer.json"}
    hostile = {"ETag": '"../../../../stray"'}
    repositories = {
        "org/model": Repository(files, revisions={"v1": {"chat_template.jinja": b"old"}}),
        "solo": Repository(files),
        "org/named": Repository(named),
        "org/slow": Repository({**slow, "tokenizer.model": b"sp", "merges.txt": b"m"}),
        "org/bare": Repository({"README.md": b"# No chat", "model.safetensors": b"weights"}),
        "org/broken": Repository({"tokenizer_config.json": b'{"chat_template": '}),
        "org/gated": Repository(files, token=TOKEN),
        "org/busy": Repository(files, status=429),
        "org/ill": Repository(files, status=503),
        "org/closed": Repository(files, status=403),
        "org/silent": Repository(files, hang="listing"),
        "org/stuck": Repository(files, hang="head"),
        "org/trickle": Repository(files, hang="body"),
        "org/mirror": Repository(files, listing=False),
        "org/climber": Repository(files, headers=hostile),
        "org/turncoat": Repository(files, headers=hostile, after=3),
        "org/absolute": Repository(files, headers={"X-Linked-ETag": '"/tmp/stray"'}),
        "org/commit": Repository(files, headers={"X-Repo-Commit": "../../stray"}),
        "org/endless": Repository(files, headers={"X-Linked-Size": "9" * 18}),
    }
    with HubServer(repositories) as server:
        yield server


def test_a_hub_id_yields_its_template_with_all_that_belongs_to_it(
    hub: HubServer, tmp_path: Path
) -> None:
    outcome = load_in_process("org/model", tmp_path, {"HF_ENDPOINT": hub.endpoint})
    (template,) = outcome.templates
    commit = commit_of(hub.repositories["org/model"].files)
    assert template["text"] == template_text()
    assert template["display"] == "org/model/chat_template.jinja"
    assert template["special_tokens"] == {"eos_token": "<|im_end|>"}
    assert template["stop_token_ids"] == [7, 8]
    assert template["attention"] == "sliding-window"
    assert template["tokenizer"] == f"org/model@{commit}"
    assert outcome.printed == ""


def test_only_small_files_are_fetched(hub: HubServer, tmp_path: Path) -> None:
    load_in_process("org/model", tmp_path, {"HF_ENDPOINT": hub.endpoint})
    assert sorted(hub.files_asked_for()) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_files_of_a_slow_tokenizer_are_fetched_where_there_is_no_tokenizer_json(
    hub: HubServer, tmp_path: Path
) -> None:
    (template,) = load_in_process("org/slow", tmp_path, {"HF_ENDPOINT": hub.endpoint}).templates
    assert {"tokenizer.model", "vocab.json", "merges.txt"} <= set(template["tokenizer_files"])


def test_named_templates_come_from_the_hub_too(hub: HubServer, tmp_path: Path) -> None:
    outcome = load_in_process("org/named", tmp_path, {"HF_ENDPOINT": hub.endpoint})
    assert [each["name"] for each in outcome.templates] == ["default", "tool_use"]


def test_single_name_ids_are_hub_ids(hub: HubServer, tmp_path: Path) -> None:
    (template,) = load_in_process("solo", tmp_path, {"HF_ENDPOINT": hub.endpoint}).templates
    assert template["display"] == "solo/chat_template.jinja"


def test_revision_picks_the_commit(hub: HubServer, tmp_path: Path) -> None:
    environment = {"HF_ENDPOINT": hub.endpoint}
    old = load_in_process("org/model", tmp_path, environment, revision="v1")
    assert [each["text"] for each in old.templates] == ["old"]
    (error,) = load_in_process("org/model", tmp_path, environment, revision="v2").errors
    assert "no revision 'v2'" in error["message"]


def test_a_revision_cannot_name_a_path(hub: HubServer, tmp_path: Path) -> None:
    environment = {"HF_ENDPOINT": hub.endpoint}
    (error,) = load_in_process("org/model", tmp_path, environment, revision="../x").errors
    assert "is not a revision" in error["message"]
    assert hub.requests == []


@pytest.mark.parametrize("how", ["option", "environment", "server gone"])
def test_a_cached_copy_serves_a_second_run(tmp_path: Path, how: str) -> None:
    with HubServer({"org/model": Repository(model_files(OWN_TEMPLATE))}) as server:
        environment = {"HF_ENDPOINT": server.endpoint}
        first = load_in_process("org/model", tmp_path, environment)
        requests = len(server.requests)
        if how != "server gone":
            environment |= {"HF_HUB_OFFLINE": "1"} if how == "environment" else {}
            again = load_in_process("org/model", tmp_path, environment, offline=how == "option")
            assert len(server.requests) == requests
    if how == "server gone":
        again = load_in_process("org/model", tmp_path, environment)
    assert again.errors == []
    assert again.templates == first.templates


def test_half_a_copy_does_not_stand_in_for_a_silent_server(tmp_path: Path) -> None:
    interrupted = Repository(model_files(OWN_TEMPLATE), hang="head", after=5)
    with HubServer({"org/model": interrupted}) as server:
        environment = {"HF_ENDPOINT": server.endpoint}
        first = load_in_process("org/model", tmp_path, environment, time_limit=4.0)
        assert "chat_template.jinja" in server.files_asked_for()
    second = load_in_process("org/model", tmp_path, environment, time_limit=2.0)
    for outcome in (first, second):
        assert outcome.templates == []
        assert len(outcome.errors) == 1


def test_offline_without_a_copy_says_what_to_do(hub: HubServer, tmp_path: Path) -> None:
    environment = {"HF_ENDPOINT": hub.endpoint}
    (error,) = load_in_process("org/model", tmp_path, environment, offline=True).errors
    assert error["message"] == "not in the local hub cache"
    assert hub.requests == []


def test_the_token_opens_a_gated_repository(hub: HubServer, tmp_path: Path) -> None:
    environment = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": TOKEN}
    assert load_in_process("org/gated", tmp_path, environment).templates
    sent = {request.token for request in hub.requests if "gated" in request.path}
    assert sent == {TOKEN}


@pytest.mark.parametrize("token", [None, "hf_another"])
def test_a_gated_repository_names_the_next_step(
    hub: HubServer, tmp_path: Path, token: str | None
) -> None:
    environment = {"HF_ENDPOINT": hub.endpoint} | ({"HF_TOKEN": token} if token else {})
    outcome = load_in_process("org/gated", tmp_path, environment)
    (error,) = outcome.errors
    assert error["target"] == "org/gated"
    assert "gated" in error["message"]
    assert "HF_TOKEN" in error["hint"]
    assert outcome.printed == ""


@pytest.mark.parametrize(
    ("target", "message", "hint"),
    [
        ("org/unknown", "no such repository", "check the id"),
        ("org/bare", "neither a chat template nor a tokenizer", "--chat-template"),
        ("org/broken", "tokenizer_config.json: is not JSON", "fetch it again"),
        ("org/busy", "HTTP 429", "wait"),
        ("org/ill", "HTTP 503", "try again later"),
        ("org/closed", "HTTP 403", "HF_TOKEN"),
        ("a/b/c", "not a hub id either", "org/name"),
        ("org/climber", "not a plain name", "HF_ENDPOINT"),
        ("org/turncoat", "not a plain name", "HF_ENDPOINT"),
        ("org/absolute", "not a plain name", "HF_ENDPOINT"),
        ("org/commit", "not a plain name", "HF_ENDPOINT"),
        ("org/endless", "announces a file", "HF_ENDPOINT"),
    ],
)
def test_each_refusal_is_one_line_with_a_next_step(
    hub: HubServer, tmp_path: Path, target: str, message: str, hint: str
) -> None:
    outcome = load_in_process(target, tmp_path / "a" / "b" / "c", {"HF_ENDPOINT": hub.endpoint})
    (error,) = outcome.errors
    assert error["target"] == target
    assert message in error["message"]
    assert hint in error["hint"]
    assert "\n" not in error["message"] + error["hint"]
    assert outcome.printed == ""
    assert not list(tmp_path.rglob("*stray*"))


@pytest.mark.parametrize("target", ["org/silent", "org/stuck", "org/trickle"])
def test_a_silent_server_cannot_hold_the_process(
    hub: HubServer, tmp_path: Path, target: str
) -> None:
    outcome = load_in_process(target, tmp_path, {"HF_ENDPOINT": hub.endpoint}, time_limit=2.0)
    (error,) = outcome.errors
    assert "no answer from" in error["message"]
    assert outcome.seconds < 8
    assert outcome.printed == ""


def test_no_network_is_one_clear_line(tmp_path: Path) -> None:
    for endpoint, message in (
        ("http://127.0.0.1:9", "cannot reach http://127.0.0.1:9"),
        ("nonsense", "is no web address"),
    ):
        outcome = load_in_process("org/model", tmp_path, {"HF_ENDPOINT": endpoint}, time_limit=5.0)
        (error,) = outcome.errors
        assert message in error["message"]
        assert outcome.printed == ""


def test_a_bare_name_was_looked_for_as_a_file_first(tmp_path: Path) -> None:
    environment = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    (error,) = load_in_process("Qwen3-8B", tmp_path, environment, time_limit=5.0).errors
    told = "no such file or directory, and as a hub id: cannot reach http://127.0.0.1:9"
    assert error["message"].startswith(told)


def test_a_token_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    rejected = ValueError(f"Illegal header value b'Bearer {TOKEN}'")
    assert TOKEN not in str(explain(rejected, "org/model", None))


def test_an_unusable_token_and_cache_are_named(hub: HubServer, tmp_path: Path) -> None:
    for name, value, message in (
        ("HF_TOKEN", "hf_é", "HF_TOKEN"),
        ("HF_HOME", "/dev/null/home", "/dev/null/home"),
        ("HF_HUB_ETAG_TIMEOUT", "soon", "soon"),
    ):
        environment = {"HF_ENDPOINT": hub.endpoint, name: value}
        outcome = load_in_process("org/model", tmp_path, environment)
        (error,) = outcome.errors
        assert message in error["message"]
        assert outcome.printed == ""


def test_a_mirror_without_listings_is_asked_for_each_file(hub: HubServer, tmp_path: Path) -> None:
    (template,) = load_in_process("org/mirror", tmp_path, {"HF_ENDPOINT": hub.endpoint}).templates
    assert template["text"] == template_text()
    assert "tokenizer.json" in template["tokenizer_files"]


def test_another_tokenizer_can_come_from_the_hub(hub: HubServer, tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text(OWN_TEMPLATE)
    outcome = load_in_process(
        str(own), tmp_path, {"HF_ENDPOINT": hub.endpoint}, tokenizer="org/model"
    )
    (template,) = outcome.templates
    assert template["text"] == OWN_TEMPLATE
    assert template["tokenizer"].startswith("org/model@")
    assert template["special_tokens"] == {"eos_token": "<|im_end|>"}
    assert "chat_template.jinja" not in hub.files_asked_for()
