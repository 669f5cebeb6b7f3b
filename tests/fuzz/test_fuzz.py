"""A little fuzzing with every run of the tests; ``python tools/fuzz.py`` does it for longer.

What ``TEMPLATEFIX_FUZZ`` says is how many times as many inputs are tried (1 by default); then they
are others each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from tests.fuzz import mutants, targets
from tests.subjects import APPENDS_ALL, template

_MORE = int(os.environ.get("TEMPLATEFIX_FUZZ", "1"))

_RECORDED = {
    "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    "chat_template_kwargs": {"enable_thinking": False},
    "response": {"choices": [{"message": {"role": "assistant", "content": "c"}}]},
}
_CONFIG = {
    "chat_template": [{"name": "default", "template": APPENDS_ALL}],
    "eos_token": {"content": "</s>"},
    "added_tokens_decoder": {"1": {"content": "<s>", "special": True}},
}
_BASELINE = {
    "version": 1,
    "findings": [{"path": "t.jinja", "code": "TF102", "fingerprint": "0" * 16}],
}
_CONVERSATION = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": None, "completion_token_ids": [1, 2]},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
}


def fuzz(inputs: int) -> Callable[[Callable[..., None]], Any]:
    """The settings of one test: how many inputs it tries."""
    return settings(
        max_examples=inputs * _MORE,
        deadline=None,
        derandomize=_MORE == 1,
        database=None,
        # Shrinking a template for minutes helps nobody: the input is printed as it is.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@fuzz(30)
@given(st.deferred(lambda: mutants.broken(mutants.templates())))
def test_broken_templates_are_read_with_exact_spans_or_refused(text: str) -> None:
    event(f"parsed: {targets.reading(text)}")
    targets.suppressing(text)


@fuzz(6)
@given(st.deferred(lambda: mutants.broken(mutants.templates())))
def test_broken_templates_are_checked(text: str) -> None:
    event(targets.checking(text))


@fuzz(4)
@given(st.deferred(lambda: mutants.sound(mutants.templates())))
def test_changed_templates_are_checked(text: str) -> None:
    assert targets.reading(text)
    event(targets.checking(text))


@fuzz(1)
@given(
    st.deferred(lambda: mutants.sound(mutants.templates())),
    st.sampled_from(("lossless", "keep-reasoning")),
)
def test_what_a_repair_of_a_changed_template_emits_keeps_the_contract(
    text: str, policy: str
) -> None:
    event(targets.patching(text, policy))


@fuzz(60)
@given(content=mutants.mutilated_json(_CONFIG) | st.binary(max_size=200))
def test_configurations_hold_templates_or_say_what_is_wrong(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    event(f"templates: {targets.loading(tmp_path / 'tokenizer_config.json')}")


@fuzz(60)
@given(name=st.sampled_from(("config.json", "generation_config.json")), content=st.data())
def test_files_beside_a_template_are_read_or_named(
    tmp_path: Path, name: str, content: st.DataObject
) -> None:
    good = {"eos_token_id": [1], "layer_types": ["sliding_attention"], "model_type": "qwen3"}
    (tmp_path / "chat_template.jinja").write_text(APPENDS_ALL)
    (tmp_path / name).write_bytes(content.draw(mutants.mutilated_json(good)))
    event(f"templates: {targets.loading(tmp_path)}")
    (tmp_path / name).unlink()


@fuzz(60)
@given(content=mutants.mutilated_json(_BASELINE) | st.binary(max_size=200))
def test_baselines_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "baseline.json").write_bytes(content)
    event(f"read: {targets.accepting(tmp_path / 'baseline.json')}")


@fuzz(60)
@given(mutants.mutilated_json(_CONVERSATION))
def test_conversations_are_read_or_refused(content: bytes) -> None:
    event(f"read: {targets.conversing(content.decode('utf-8', 'surrogatepass'))}")


@fuzz(30)
@given(st.lists(mutants.mutilated_json(_RECORDED), max_size=5))
def test_recorded_requests_are_replayed_or_counted_as_unreadable(lines: list[bytes]) -> None:
    replayed = targets.recording(b"\n".join(lines), template(APPENDS_ALL, exact=False))
    event(f"replayed: {replayed > 0}")


def _gguf(tmp_path: Path) -> bytes:
    gguf = pytest.importorskip("gguf")
    file = tmp_path / "whole.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_chat_template(APPENDS_ALL)
    writer.add_token_list(["a", "b", "</s>"])
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return file.read_bytes()


@fuzz(100)
@given(
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=4),
    end=st.floats(0, 1),
)
def test_damaged_gguf_files_hold_templates_or_say_what_is_wrong(
    tmp_path: Path, edits: list[tuple[float, bytes]], end: float
) -> None:
    content = bytearray(_gguf(tmp_path))
    for where, put in edits:
        at = int(where * len(content))
        content[at : at + len(put)] = put
    file = tmp_path / "damaged.gguf"
    file.write_bytes(content[: int(end * len(content)) if end < 0.5 else len(content)])
    event(f"templates: {targets.loading(file)}")
