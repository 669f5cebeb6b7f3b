"""``check --recorded``: what people and programs get to see of a recording, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from templatefix.cli.program import templatefix
from tests import packages
from tests.example import EXAMPLE
from tests.report.samples import report, traffic
from tests.serving.traffic_log import Log
from tests.test_golden import GOLDEN, _conversation, _template

OFF = {"enable_thinking": False}
ASK = {"role": "user", "content": "Which city lies at the mouth of the Douro?"}
NEXT = {"role": "user", "content": "And at the mouth of the Tagus?"}
SAID = {"role": "assistant", "content": "Porto lies there, on the north bank, facing Gaia."}


def check(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(templatefix, ["check", *args], input=stdin)


def recording(path: Path, *, kwargs: dict[str, Any], broken: bool = True) -> Path:
    log = Log.under((EXAMPLE / "chat_template.jinja").read_text("utf-8"))
    log.add([ASK], SAID, chat_template_kwargs=kwargs)
    log.lines += ["{"] if broken else []
    log.add([ASK, SAID, NEXT], chat_template_kwargs=kwargs)
    path.write_text("\n".join(log.lines) + "\n", "utf-8")
    return path


def test_the_report_names_owners_and_lines_in_eighty_columns(tmp_path: Path) -> None:
    file = recording(tmp_path / "t.jsonl", kwargs=OFF)
    result = check(str(EXAMPLE), "--recorded", str(file), "--no-recover")
    assert result.exit_code == 1, result.output
    block = result.output[result.output.index("recorded traffic in") :].splitlines()
    assert all(len(line) <= 80 for line in block if "tokenizer" not in line)
    text = " ".join(" ".join(block).split())
    assert "skipped 1 line (line 2: not JSON" in text
    assert "requests 2 in 1 conversation" in text
    assert "template TF101 at 64:16 32 1 line 3" in text
    assert "(enable_thinking=false, line 3)" in result.output


def test_a_template_that_loses_nothing_exits_clean_although_lines_are_broken(
    tmp_path: Path,
) -> None:
    appends = tmp_path / "chat_template.jinja"
    appends.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "utf-8",
    )
    file = recording(tmp_path / "t.jsonl", kwargs={})
    result = check(str(appends), "--recorded", str(file))
    assert result.exit_code == 0, result.output
    assert "skipped 1 line" in result.output


def test_the_json_report_has_the_figures(tmp_path: Path) -> None:
    file = recording(tmp_path / "t.jsonl", kwargs=OFF, broken=False)
    result = check(str(EXAMPLE), "--recorded", str(file), "--no-recover", "--output-format", "json")
    (checked,) = json.loads(result.stdout)["reports"]
    recorded = checked["recorded"]
    assert recorded["lost_to"] == {"template": 32, "parser": 0, "tokenizer": 0, "client": 0}
    assert recorded["lost_tokens"] == recorded["ideal_tokens"] - recorded["reused_tokens"] == 32
    assert recorded["recovery"] is None
    assert [each["requests"] for each in checked["findings"]] == [1]
    assert checked["verdict"] == "breaks"


def test_kwargs_are_the_servers_defaults_and_requests_override_them(tmp_path: Path) -> None:
    bare = recording(tmp_path / "bare.jsonl", kwargs={}, broken=False)
    result = check(
        str(EXAMPLE), "--recorded", str(bare), "--no-recover", "--kwargs", json.dumps(OFF)
    )
    assert "template   TF101" in result.output
    own = recording(tmp_path / "own.jsonl", kwargs=OFF, broken=False)
    thinking = '{"enable_thinking": true}'
    result = check(str(EXAMPLE), "--recorded", str(own), "--no-recover", "--kwargs", thinking)
    assert "template   TF101" in result.output


def test_a_recording_comes_from_standard_input_unless_the_target_does(tmp_path: Path) -> None:
    file = recording(tmp_path / "t.jsonl", kwargs=OFF)
    text = file.read_text("utf-8")
    result = check(str(EXAMPLE), "--recorded", "-", "--no-recover", stdin=text)
    assert result.exit_code == 1
    assert "recorded traffic in <stdin>" in result.output
    for targets in (["-"], [str(EXAMPLE), str(EXAMPLE)]):
        assert check(*targets, "--recorded", "-", stdin=text).exit_code == 2


def test_a_settings_file_may_name_a_recording_which_the_command_line_replaces(
    tmp_path: Path,
) -> None:
    for each in ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / each).write_bytes((EXAMPLE / each).read_bytes())
    recording(tmp_path / "t.jsonl", kwargs=OFF)
    settings = 'recorded = "t.jsonl"\nrecover = false\n'
    (tmp_path / "templatefix.toml").write_text(settings, "utf-8")
    assert "recorded traffic in" in check(str(tmp_path)).output
    conversation = tmp_path / "c.json"
    conversation.write_text(json.dumps({"messages": [ASK, SAID, NEXT]}), "utf-8")
    result = check(str(tmp_path), "--conversation", str(conversation))
    assert result.exit_code in (0, 1), result.output
    assert "recorded traffic in" not in result.output


def test_a_recording_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    result = check(str(EXAMPLE), "--recorded", str(tmp_path / "none.jsonl"))
    assert (result.exit_code, "no such file" in result.output) == (2, True)
    both = check(str(EXAMPLE), "--recorded", "a", "--conversation", "b")
    assert (both.exit_code, "exclude each other" in both.output) == (2, True)
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    result = check(str(EXAMPLE), "--recorded", str(empty), "--strict-coverage")
    assert result.exit_code == 1
    assert "nothing was evaluated" in result.output


def test_large_figures_and_long_lists_fit_the_block() -> None:
    from templatefix.report.recorded_text import recorded_lines

    lines = recorded_lines(traffic(), report(), 100, verbose=False)
    assert all(len(line) <= 80 for line in lines)
    text = " ".join(" ".join(lines).split())
    for said in (
        "skipped 5 lines (line 2: not JSON; line 3: not JSON; line 5: not JSON; 2 more)",
        "not replayed: 5 requests (5 from line 20 on: the server answered with an error)",
        "1 conversation closed early to bound the memory",
        "2 requests recorded with prompt ids that this template does not print",
        "requests 1200 in 310 conversations, 3 branches",
        "answers known 800 from token ids, 80 from text, 10 unknown beyond the prompt; 7 answers",
        "are lost 200000 to the template 150000 to the parser 20000 to the client 30000",
        "25000 of the client's tokens the template would lose as well",
        "would recover 149000 of the 150000 tokens lost to the template",
    ):
        assert said in text, said


@pytest.mark.parametrize("status", ["failed", "unchanged"])
def test_a_patch_that_brings_nothing_back_says_so(status: str) -> None:
    from templatefix.findings.recorded import Recovery
    from templatefix.report.recorded_text import recorded_lines

    recovery = Recovery("lossless", status)  # type: ignore[arg-type]
    lines = recorded_lines(traffic(recovery=recovery), report(), 80, verbose=False)
    assert "nothing of the 150000" in " ".join(" ".join(lines).split())


@pytest.mark.corpus
@pytest.mark.parametrize(
    "measured",
    GOLDEN["measured"],
    ids=lambda m: f"{m['template']}-{m['mode']['enable_thinking']}-{m.get('replay', 'none')}",
)
@pytest.mark.parametrize("ids", [True, False])
def test_a_chat_that_a_real_server_served_comes_to_the_figures_that_it_reported(
    measured: dict[str, Any], ids: bool, tmp_path: Path
) -> None:
    tokenizer = packages.or_skip(packages.qwen3_tokenizer)
    template = tmp_path / "chat_template.jinja"
    template.write_text(_template(measured["template"]), "utf-8")
    file = tmp_path / "traffic.jsonl"
    file.write_text("\n".join(_served(measured, tokenizer if ids else None)), "utf-8")
    options = ["--tokenizer", str(tokenizer), "--block-size", str(GOLDEN["block_size"])]
    result = check(
        str(template), *options, "--recorded", str(file), "--no-recover", "--output-format", "json"
    )
    recorded = json.loads(result.stdout)["reports"][0]["recorded"]
    assert recorded["reused_tokens"] == sum(measured["cached_tokens"])
    assert recorded["prompt_tokens"] == sum(measured["prompt_tokens"])
    assert recorded["requests"] == len(measured["prompt_tokens"])
    kind = "ids" if ids else "text"
    assert recorded["completions"][kind] == recorded["continued"] == 3


def _served(measured: dict[str, Any], tokenizer: Path | None) -> list[str]:
    """The golden conversation as a proxy would have recorded it, request by request."""
    from templatefix.source import TokenizerRef
    from templatefix.tokens import load_encoder

    style = "thinking" if measured["mode"]["enable_thinking"] else "non-thinking"
    messages: list[dict[str, Any]] = []
    lines = []
    texts = iter(zip(GOLDEN["answer"], GOLDEN["reasoning"], strict=True))
    for message in _conversation(measured)["messages"]:
        if message["role"] != "assistant":
            messages.append(message)
            continue
        answer, reasoning = next(texts)
        returned = {
            key: value.replace("\\n", "\n").format(answer=answer, reasoning=reasoning)
            for key, value in GOLDEN["replayed_by_client"][style].items()
        }
        choice: dict[str, Any] = {
            "message": {"role": "assistant", **returned},
            "finish_reason": "stop",
        }
        if tokenizer is not None:
            ref = TokenizerRef("qwen3", tokenizer, tokenizer / "tokenizer.json")
            choice["token_ids"] = load_encoder(ref).encode(message["completion"])
        request = {"messages": messages, "chat_template_kwargs": measured["mode"]}
        lines.append(json.dumps({"request": request, "response": {"choices": [choice]}}))
        sent = {key: value for key, value in message.items() if key != "completion"}
        messages = [*messages, sent]
    return lines
