"""``serve-args`` from the command line: targets, warnings, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from templatefix.cli.program import templatefix
from tests.example import EXAMPLE
from tests.hostile.templates import SLOW
from tests.hub import HubServer, Repository
from tests.subjects import APPENDS, APPENDS_ALL

V4 = {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4"}


def serve_args(*args: str, stdin: str | None = None, **environment: str) -> Result:
    return CliRunner().invoke(templatefix, ["serve-args", *args], input=stdin, env=environment)


def told(*args: str, **environment: str) -> dict[str, Any]:
    ended = serve_args(*args, "--emit", "json", **environment)
    assert ended.exit_code == 0, ended.stderr
    assert ended.stderr == ""
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def kinds(document: dict[str, Any]) -> list[str]:
    return [each["kind"] for each in document["warnings"]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory: the example's tokenizer and template, and a configuration."""
    directory = tmp_path / "model"
    shutil.copytree(EXAMPLE, directory)
    (directory / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    return directory


def test_the_example_is_served_with_what_its_markers_call_for_and_warned_of() -> None:
    ended = serve_args(str(EXAMPLE), "--connector", "mooncake-store")
    assert ended.exit_code == 0
    assert ended.stdout.endswith(
        "MOONCAKE_CONFIG_PATH=mooncake.json \\\n"
        f"vllm serve {EXAMPLE} \\\n"
        "  --reasoning-parser qwen3 \\\n"
        "  --enable-auto-tool-choice \\\n"
        "  --tool-call-parser hermes \\\n"
        "  --enable-prompt-tokens-details \\\n"
        '  --kv-transfer-config \'{"kv_connector": "MooncakeStoreConnector", "kv_role": "kv_both", '
        '"kv_connector_extra_config": {"save_decode_cache": true}}\'\n'
    )
    assert "TF101 dropped-empty-think at line" in " ".join(ended.stderr.split())
    assert f"  instead: templatefix patch {EXAMPLE} --out fixed.jinja\n" in ended.stderr
    assert "--out fixed.jinja --policy keep-reasoning (the model then sees" in ended.stderr
    assert "note: mooncake.json: 16 GiB" in ended.stderr


def test_a_template_that_appends_is_not_warned_of(model: Path) -> None:
    file = model / "t.jinja"
    file.write_text(APPENDS_ALL)
    found = told(str(model), "--chat-template", str(file))
    assert found["verdict"] == "preserving"
    assert found["warnings"] == []
    assert found["flags"]["--chat-template"] == str(file)
    assert found["command"][2] == str(model)


def test_the_verdict_is_that_of_the_kwargs_which_the_server_gets(tmp_path: Path) -> None:
    file = tmp_path / "t.jinja"
    file.write_text(
        "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
        "{%- if message.role == 'assistant' and message.reasoning_content is defined"
        " and (keep is defined and keep or loop.last) %}"
        "{{- '<think>' + message.reasoning_content + '</think>' }}{%- endif %}"
        "{{- message.content + '<|im_end|>\\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"
    )
    broken = told(str(file))
    assert (broken["verdict"], kinds(broken)) == ("breaks", ["not-prefix-preserving"])
    assert "--default-chat-template-kwargs '{\"keep\": true}'" in broken["warnings"][0]["instead"]
    kept = told(str(file), "--kwargs", '{"keep": true}')
    assert (kept["verdict"], kinds(kept)) == ("preserving", [])
    assert kept["flags"]["--default-chat-template-kwargs"] == {"keep": True}
    misspelt = told(str(file), "--kwargs", '{"kep": true}')
    assert kinds(misspelt) == ["kwarg-not-read", "not-prefix-preserving"]
    assert "`kep`" in misspelt["warnings"][0]["reason"]


def test_a_patch_of_a_given_template_names_it(model: Path) -> None:
    template = str(EXAMPLE / "chat_template.jinja")
    found = told(str(model), "--chat-template", template)
    command = f"templatefix patch {model} --chat-template {template} --out fixed.jinja"
    assert command in found["warnings"][0]["instead"]


def test_a_template_file_is_served_by_the_model_around_it_or_the_one_that_is_named(
    model: Path, tmp_path: Path
) -> None:
    file = model / "chat_template.jinja"
    assert told(str(file))["command"][:5] == [
        *("vllm", "serve", str(model), "--chat-template", str(file))
    ]
    alone = tmp_path / "alone.jinja"
    alone.write_text(APPENDS)
    assert told(str(alone))["model"] == "MODEL"
    assert told(str(alone), "--model", "org/m")["model"] == "org/m"
    piped = serve_args("-", "-q", stdin=APPENDS)
    assert piped.stdout.startswith("vllm serve MODEL \\\n  --chat-template FILE \\\n")
    assert piped.stderr == ""


def test_a_template_that_vllm_cannot_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"chat_template": APPENDS}))
    ended = serve_args(str(file))
    assert ended.exit_code == 2
    assert "takes Jinja text, not JSON" in ended.stderr


def test_a_model_without_a_template_is_served_by_its_own_renderer(model: Path) -> None:
    (model / "chat_template.jinja").unlink()
    refused = serve_args(str(model))
    assert refused.exit_code == 2
    assert "holds no chat template" in refused.stderr
    (model / "config.json").write_text(json.dumps(V4))
    found = told(str(model))
    assert found["renderer"] == "deepseek_v4"
    assert found["parsers"] == {"reasoning": "deepseek_v4", "tool_call": "deepseek_v4"}
    assert kinds(found) == ["not-rendered-by-jinja", "renderer-history"]
    assert found["verdict"] is None


def test_files_of_a_repository_that_are_never_fetched_tell_its_renderer(tmp_path: Path) -> None:
    files = {
        "tokenizer.json": (EXAMPLE / "tokenizer.json").read_bytes(),
        "tokenizer_config.json": json.dumps({"chat_template": APPENDS}).encode(),
        "config.json": b"{}",
        "tekken.json": b"{}",
        "consolidated.safetensors": b"weights",
    }
    with HubServer({"org/m": Repository(files)}) as server:
        environment = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(tmp_path)}
        found = told("org/m", "--revision", "main", **environment)
        fetched = server.files_asked_for()
    assert found["renderer"] == "mistral"
    assert found["flags"]["--revision"] == "main"
    assert "consolidated.safetensors" not in fetched


def test_a_tokenizer_that_cannot_be_read_does_not_hide_the_verdict(model: Path) -> None:
    (model / "tokenizer.json").write_text("{}")
    assert told(str(model))["verdict"] == "breaks"
    assert serve_args(str(model), "--tokenizer", str(model)).exit_code == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--role", "consumer"], "--role consumer needs --connector mooncake-store"),
        (["--cpu-bytes", "many"], "not a number of bytes"),
        (["--cpu-bytes", "0"], "not a number of bytes"),
        (["--connector", "redis"], "'redis' is not one of"),
        (["--store-tp-size", "0", "--connector", "mooncake-store"], "0 is not in the range"),
        (["--kwargs", "[]"], "not a JSON object"),
        (["--kwargs", '{"a": NaN}'], "NaN is not JSON"),
        (["--kwargs", '{"a": 1e999}'], "not JSON"),
    ],
)
def test_usage_errors_are_one_line(args: list[str], message: str) -> None:
    ended = serve_args(str(EXAMPLE), *args)
    assert ended.exit_code == 2
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("spelled", "size"), [("1000", 1000), ("16GiB", 16 * 2**30), ("4 mb", 4 * 2**20), ("1T", 2**40)]
)
def test_memory_is_spelled_in_bytes_or_with_a_unit(spelled: str, size: int) -> None:
    found = told(str(EXAMPLE), "--connector", "offloading", "--cpu-bytes", spelled)
    extra = found["flags"]["--kv-transfer-config"]["kv_connector_extra_config"]
    assert extra["cpu_bytes_to_use"] == size


def test_what_no_terminal_should_see_is_refused(model: Path) -> None:
    odd = model.with_name("odd\x1b[2J")
    model.rename(odd)
    ended = serve_args(str(odd))
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert "\x1b" not in ended.stderr
    assert "rename it" in ended.stderr


def test_a_template_that_takes_too_much_does_not_hold_the_command(tmp_path: Path) -> None:
    file = tmp_path / "slow.jinja"
    file.write_text(SLOW["nested ranges"], encoding="utf-8")
    words = ["serve-args", str(file), "--model", "org/name", "--time-limit", "0.2"]
    ended = CliRunner().invoke(templatefix, words)
    assert ended.exit_code == 1
    assert "rendering takes more than 0.2 s" in ended.stderr
    assert ended.stdout == ""
