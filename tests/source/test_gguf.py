"""GGUF files, written with the gguf package and read without trusting them."""

from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from templatefix.errors import TargetError
from templatefix.source import SourceOptions, load, load_each
from tests.example import EXAMPLE

PLAIN = SourceOptions()
TOKENS = ["<unk>", "<s>", "</s>", "<pad>", "<end>", *(f"word{index}" for index in range(500))]


def write_gguf(path: Path, template: Any = "{{ messages }}", **more: Any) -> Path:
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(str(path), "llama", **more)
    writer.add_block_count(1)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.5] * len(TOKENS))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(3)
    writer.add_unk_token_id(0)
    writer.add_eot_token_id(4)
    if template is not None:
        writer.add_chat_template(template)
    writer.add_tensor("output.weight", numpy.ones((64, 64), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_template_and_tokens_come_from_the_metadata(tmp_path: Path) -> None:
    (template,) = load(str(write_gguf(tmp_path / "m.gguf")), PLAIN)
    assert (template.text, template.name, template.format) == ("{{ messages }}", None, "gguf")
    assert template.display == str(tmp_path / "m.gguf")
    assert template.special_tokens == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }
    assert template.stop_token_ids == (2, 4)
    assert template.tokenizer is None


def test_named_templates_are_found(tmp_path: Path) -> None:
    named = [
        {"name": "default", "template": "D{{ messages }}"},
        {"name": "tool_use", "template": "T{{ messages }}"},
    ]
    path = write_gguf(tmp_path / "m.gguf", named)
    found = [(each.name, each.text[0]) for each in load(str(path), PLAIN)]
    assert found == [("default", "D"), ("tool_use", "T")]
    (picked,) = load(str(path), SourceOptions(template_name="tool_use"))
    assert picked.name == "tool_use"


def test_files_beside_it_complete_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [9]}')
    (template,) = load(str(path), PLAIN)
    assert template.tokenizer is not None
    assert template.stop_token_ids == (9,)


def test_big_endian_files_are_read(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = write_gguf(tmp_path / "m.gguf", endianess=gguf.GGUFEndian.BIG)
    assert load(str(path), PLAIN)[0].special_tokens["eos_token"] == "</s>"


def test_a_file_without_a_template_says_so(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", None)
    with pytest.raises(TargetError, match="holds no chat template"):
        load(str(path), PLAIN)


def test_tensors_are_not_needed(tmp_path: Path) -> None:
    content = write_gguf(tmp_path / "m.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(content[: len(content) - 16_000])
    assert load(str(tmp_path / "cut.gguf"), PLAIN)


def test_every_truncation_of_the_metadata_ends_in_one_error(tmp_path: Path) -> None:
    content = write_gguf(tmp_path / "m.gguf").read_bytes()
    end = content.index(b"output.weight") - 8
    cut = tmp_path / "cut.gguf"
    for length in [*range(400), *range(400, end, 97)]:
        cut.write_bytes(content[:length])
        (found,) = load_each(str(cut), PLAIN)
        assert isinstance(found, TargetError), length


def header(*values: bytes, keys: int = 1) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, keys) + b"".join(values)


def key(name: bytes, kind: int) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind)


HUGE = 2**62
LIES = {
    "string": header(key(b"tokenizer.chat_template", 8), struct.pack("<Q", HUGE)),
    "long": header(key(b"tokenizer.chat_template", 8), struct.pack("<Q", 60 * 2**20), b"{{"),
    "key": header(struct.pack("<Q", HUGE)),
    "keys": header(key(b"a", 0), b"\1", keys=HUGE),
    "bytes": header(key(b"a", 9), struct.pack("<IQ", 0, HUGE)),
    "strings": header(key(b"a", 9), struct.pack("<IQ", 8, HUGE)),
    "arrays": header(key(b"a", 9), struct.pack("<IQ", 9, HUGE)),
    "nesting": header(key(b"a", 9), struct.pack("<IQ", 9, 1) * 5000),
    "kind": header(key(b"a", 99)),
    "version": b"GGUF" + struct.pack("<IQQ", 77, 0, 0),
    "text": header(key(b"tokenizer.chat_template", 8), struct.pack("<Q", 2), b"\xff\xfe"),
    "number": header(key(b"tokenizer.chat_template", 0), b"\1"),
    # Entries of no length at all: cheap to claim, costly to count.
    "zeros": header(key(b"a", 9), struct.pack("<IQ", 8, 10_000_000), bytes(80_000)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_file_is_refused_without_a_giant_allocation(tmp_path: Path, lie: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(LIES[lie])
    tracemalloc.start()
    try:
        with pytest.raises(TargetError):
            load(str(path), PLAIN)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


def test_the_tiny_file_of_the_tools_holds_the_template_and_its_tokens(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    file = tmp_path / "tiny.gguf"
    tool = Path(__file__).parents[2] / "tools" / "tiny_gguf.py"
    subprocess.run([sys.executable, str(tool), str(EXAMPLE), str(file)], check=True)
    (found,) = load(str(file), PLAIN)
    assert found.text == (EXAMPLE / "chat_template.jinja").read_text("utf-8")
    assert found.special_tokens["eos_token"] == "<|im_end|>"
