"""Each command is read by vLLM's own parser, and what we say of vLLM is so.

vLLM runs in its own Python, asked once for everything: to import it takes longer than to ask it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from templatefix import api
from templatefix.dialect.named.infer import _REASONING_RULES, _TOOL_RULES
from templatefix.serving import emit
from templatefix.serving.assemble import Served, ServeOptions, serving
from templatefix.serving.choices import CONNECTORS
from templatefix.serving.connectors import Storage
from templatefix.serving.plan import Serving
from templatefix.serving.renderers import _BY_ARCHITECTURE, _BY_MODEL_TYPE, recognise
from tests.corpus import corpus_entry
from tests.example import EXAMPLE
from tests.serving.vllm_side import ANSWERS
from tests.vllm.render_server import python_with_vllm

pytestmark = pytest.mark.vllm

SIDE = Path(__file__).with_name("vllm_side.py")
STORAGES = [
    *(Storage(connector) for connector in CONNECTORS),
    *(Storage(connector, cpu_bytes=2**31) for connector in CONNECTORS[:-1]),
    Storage("mooncake-store", store_tp_size=8),
    Storage("mooncake-store", "consumer"),
    Storage("mooncake-store", "consumer", store_tp_size=4),
]
KWARGS = {"enable_thinking": False, "note": 'it\'s $5 "x" \\ é', "n": 1e22, "l": [None, "yes"]}
#: Families whose templates call for different parsers, where the corpus is there.
CORPUS = (
    "Qwen/Qwen3-8B",
    "deepseek-ai/DeepSeek-R1",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "zai-org/GLM-4.7",
    "moonshotai/Kimi-K2-Thinking",
    "MiniMaxAI/MiniMax-M2",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "openai/gpt-oss-20b",
    "unsloth/Llama-3.1-8B-Instruct",
    "google/gemma-4-31B-it",
)
CONFIGS: dict[str, dict[str, Any]] = {
    "deepseek-v4": {"architectures": ["DeepseekV4ForCausalLM"]},
    "deepseek-v32": {"architectures": ["DeepseekV32ForCausalLM"]},
    "kimi-k3": {"architectures": ["KimiK3ForConditionalGeneration"]},
    "inkling": {"architectures": ["InklingForCausalLM"]},
    "gpt-oss": {"model_type": "gpt_oss"},
}
TREES = {
    "mistral": ("consolidated.safetensors", "tekken.json"),
    "mistral-v3": ("consolidated.safetensors", "tokenizer.model.v3"),
    "shards": ("consolidated-00001-of-00002.safetensors", "tekken.json"),
    "tokenizer-alone": ("model.safetensors", "tekken.json"),
    "weights-alone": ("consolidated.safetensors", "tokenizer.model"),
    "plain": ("model.safetensors", "tokenizer.json"),
}


def plans(tmp: Path) -> Iterator[Serving]:
    template = tmp / "it's $x.jinja"
    template.write_text((EXAMPLE / "chat_template.jinja").read_text("utf-8"), "utf-8")
    for storage in STORAGES:
        yield api.serve(
            str(EXAMPLE),
            api.SourceOptions(chat_template=str(template)),
            ServeOptions(KWARGS, storage=storage),
        )
        yield serving(Served("org/model", None, "v1.0"), ServeOptions(storage=storage))
    for config in CONFIGS.values():
        yield serving(Served("org/model", config=config), ServeOptions())
        yield serving(Served("org/model", str(template), config=config), ServeOptions())
    yield serving(Served("org/model", files=TREES["mistral"]), ServeOptions())
    for model_id in CORPUS:
        entry = corpus_entry(model_id)
        if entry is not None:
            yield api.serve(
                str(entry.template), api.SourceOptions(), ServeOptions(), model=model_id
            )


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Serving, Any, Any]]:
    """Each command with what vLLM reads in its words, and in its file for ``--config``."""
    tmp = tmp_path_factory.mktemp("commands")
    made = list(plans(tmp))
    questions: list[dict[str, Any]] = []
    for i, plan in enumerate(made):
        file = tmp / f"{i}.yaml"
        file.write_text(emit.config(plan), "utf-8")
        questions += [{"words": plan.words[1:]}, {"words": ["serve", "--config", str(file)]}]
    answers = ask(questions)
    return list(zip(made, answers[::2], answers[1::2], strict=True))


def ask(questions: list[dict[str, Any]]) -> list[Any]:
    ran = subprocess.run(
        [python_with_vllm(), str(SIDE)],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ANSWERS in ran.stdout, ran.stderr[-2000:]
    answers: list[Any] = json.loads(ran.stdout.partition(ANSWERS)[2])
    return answers


def test_vllm_reads_every_command_as_it_was_meant(
    commands: list[tuple[Serving, Any, Any]],
) -> None:
    assert len(commands) >= 2 * len(STORAGES) + 2 * len(CONFIGS)
    for plan, read, _ in commands:
        flags = dict(plan.flags)
        assert read["model"] == plan.model
        assert read["revision"] == flags.get("--revision")
        assert read["chat_template"] == flags.get("--chat-template")
        assert read["kwargs"] == flags.get("--default-chat-template-kwargs")
        assert read["tokenizer_mode"] == flags.get("--tokenizer-mode", "auto")
        assert (read["reasoning"] or None, read["tool"]) == plan.parsers
        assert read["auto"] is (plan.parsers[1] is not None)
        assert read["details"] is True
        wanted: Any = flags.get("--kv-transfer-config")
        if wanted is not None:
            wanted = {"kv_connector_extra_config": {}, **wanted}
        assert read["kv"] == wanted
        assert all(read["connectors"].values()), read["connectors"]


def test_vllm_reads_the_same_in_the_file(commands: list[tuple[Serving, Any, Any]]) -> None:
    for plan, read, from_file in commands:
        assert from_file == read, plan


def test_what_is_said_of_vllm_is_so(tmp_path: Path) -> None:
    for name, files in TREES.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    store = serving(Served("m"), ServeOptions(storage=Storage("mooncake-store", cpu_bytes=2**31)))
    questions: list[dict[str, Any]] = [{"modes": True}, {"parsers": True}]
    questions.append({"mooncake": store.files[0].text})
    questions += [{"directory": str(tmp_path / name)} for name in TREES]
    modes, parsers, mooncake, *directories = ask(questions)

    # Every architecture with a renderer that is not Jinja is known, and no other.
    own = {
        architecture: mode
        for architecture, mode in modes["architectures"].items()
        if modes["renderers"][mode] != "HfRenderer"
    }
    assert own == {name: renderer.mode for name, renderer in _BY_ARCHITECTURE.items()}
    assert set(modes["harmony"]) == set(_BY_MODEL_TYPE)
    for files, mode in zip(TREES.values(), directories, strict=True):
        found = recognise({}, files)
        assert mode == (found.renderer.mode if found else "hf")

    named = [*_BY_ARCHITECTURE.values(), *_BY_MODEL_TYPE.values()]
    inferred = [ServeOptions(reasoning_parser=rule.name) for rule in _REASONING_RULES]
    inferred += [ServeOptions(tool_call_parser=rule.name) for rule in _TOOL_RULES]
    pairs = [renderer.parsers for renderer in named]
    pairs += [serving(Served("m"), options).parsers for options in inferred]
    assert {first for first, _ in pairs if first} <= set(parsers["reasoning"])
    assert {second for _, second in pairs if second} <= set(parsers["tool"])

    assert mooncake["global_segment_size"] == 2**31
    assert mooncake["mode"] == "embedded"
    assert mooncake["master_server_address"] == "127.0.0.1:50051"
