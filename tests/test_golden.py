"""A chat that a real vLLM 0.32.0 served: the figures it reported are the figures we compute.

The server ran the Qwen3-8B template and a patched form of it on a CPU with block size 32, prefix
caching on, and was made to emit exactly the completions of the conversation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from templatefix.api import CheckOptions, SourceOptions, check_target, read_conversation
from tests import packages

GOLDEN = json.loads((Path(__file__).parent / "golden" / "qwen3_four_turns.json").read_text())

_STRIPPED = """{{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls"""
_KEPT = """{{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') \
+ '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- endif %}
        {%- if message.tool_calls"""


def _template(form: str) -> str:
    published = packages.or_skip(packages.qwen3_template)
    if form == "default":
        return published
    assert published.count(_STRIPPED) == 1
    return published.replace(_STRIPPED, _KEPT)


def _conversation(measured: dict[str, Any]) -> dict[str, Any]:
    thinks = measured["mode"]["enable_thinking"]
    style = "thinking" if thinks else "non-thinking"
    messages: list[dict[str, Any]] = [{"role": "system", "content": GOLDEN["system"]}]
    texts = zip(GOLDEN["user"], GOLDEN["answer"], GOLDEN["reasoning"], strict=True)
    for user, answer, reasoning in texts:
        fields = {
            key: value.replace("\\n", "\n").format(answer=answer, reasoning=reasoning)
            for key, value in GOLDEN["replayed_by_client"][style].items()
        }
        if measured.get("replay") == "nothing":
            del fields["reasoning"]
        completion = GOLDEN["completion"][style].replace("\\n", "\n")
        completion = completion.format(answer=answer, reasoning=reasoning)
        messages += [
            {"role": "user", "content": user},
            {"role": "assistant", "completion": completion, **fields},
        ]
    return {"messages": messages, "chat_template_kwargs": measured["mode"]}


@pytest.mark.parametrize(
    "measured",
    GOLDEN["measured"],
    ids=lambda m: f"{m['template']}-{m['mode']['enable_thinking']}-{m.get('replay', 'none')}",
)
def test_every_figure_is_the_one_that_the_server_reported(
    measured: dict[str, Any], tmp_path: Path
) -> None:
    tokenizer = packages.or_skip(packages.qwen3_tokenizer)
    template = tmp_path / "chat_template.jinja"
    template.write_text(_template(measured["template"]), encoding="utf-8")
    conversation = read_conversation(json.dumps(_conversation(measured)), "golden")

    (report,) = check_target(
        str(template),
        SourceOptions(tokenizer=str(tokenizer)),
        CheckOptions(block_size=GOLDEN["block_size"], conversation=conversation),
    )

    run = next(run for run in report.runs if run.client == "faithful")
    assert [row.prompt_tokens for row in run.turns] == measured["prompt_tokens"]
    assert [(row.stream_tokens or 0) - row.prompt_tokens for row in run.turns] == measured[
        "completion_tokens"
    ]
    assert [row.hit_tokens or 0 for row in run.turns] == measured["cached_tokens"]
    assert [row.reuse_tokens for row in run.turns] == measured["reuse_tokens"]
    assert [row.previous_stream_tokens for row in run.turns] == measured["previous_stream_tokens"]
