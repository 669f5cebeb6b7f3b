"""Tokenizer files, good and bad, and what stands in where there are none."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from templatefix.errors import TargetError
from templatefix.source.template import TokenizerRef
from templatefix.tokens import load_encoder
from templatefix.tokens.fallback import shipped_tokenizer, special_token_shapes

from . import small


def ref(directory: Path) -> TokenizerRef:
    path = directory / "tokenizer.json"
    return TokenizerRef(str(directory), directory, path if path.exists() else None)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '"x"', "{}", '{"version": "1.0"}', "9" * 5000, "[" * 5000),
        '{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}}',
        shipped_tokenizer().read_text("utf-8")[:-200],
        "\ud800",
    ],
)
def test_a_bad_file_is_a_bad_target(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text, "utf-8", errors="surrogatepass")
    with pytest.raises(TargetError) as caught:
        load_encoder(ref(tmp_path))
    assert caught.value.target == str(tmp_path)
    assert caught.value.hint


def test_a_pattern_that_backtracks_without_end_is_a_bad_target(tmp_path: Path) -> None:
    stored = json.loads(small.byte_level().to_str())
    stored["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": "(x+x+)+y|."}
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored), "utf-8")
    encoder = load_encoder(ref(tmp_path))
    with pytest.raises(TargetError, match="failed to encode"):
        encoder.encode("x" * 5000)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_a_bad_target(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    small.byte_level().save(str(path))
    path.chmod(0)
    with pytest.raises(TargetError):
        load_encoder(ref(tmp_path))


def test_a_file_that_went_away_is_a_bad_target(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot read"):
        load_encoder(TokenizerRef("gone", tmp_path, tmp_path / "tokenizer.json"))


def test_a_reference_to_nothing_is_a_bad_target() -> None:
    with pytest.raises(TargetError, match="no tokenizer files"):
        load_encoder(TokenizerRef("nothing", None, None))


def test_the_same_file_gives_the_same_encoder_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    small.byte_level().save(str(path))
    encoder = load_encoder(ref(tmp_path))
    assert load_encoder(ref(tmp_path)) is encoder
    small.sentencepiece().save(str(path))
    os.utime(path, ns=(0, 1))
    assert "<|user|>" in load_encoder(ref(tmp_path)).special_tokens()


def test_tokens_that_only_the_configuration_knows_are_added(tmp_path: Path) -> None:
    tokenizer = small.byte_level()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    size = tokenizer.get_vocab_size()
    word = tokenizer.encode("hello").tokens[0]
    added = {
        str(size): {"content": "<|new|>", "special": True, "normalized": False},
        str(size + 1): {"content": "<|newer|>", "lstrip": True},
        str(tokenizer.token_to_id(word)): {"content": word},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    encoder = load_encoder(ref(tmp_path))
    assert encoder.encode("<|new|> <|newer|>") == [size, size + 1]
    assert {"<|new|>", "<|newer|>", word, "<think>"} <= encoder.special_tokens()


@pytest.mark.parametrize(
    "config",
    [
        *("{", "[]", "[" * 100_000, '{"added_tokens_decoder": [1]}'),
        '{"added_tokens_decoder": {"x": {"content": "<x>"}, "7": 7, "8": {"content": 8}}}',
        '{"added_tokens_decoder": {"99999": {"content": "<far>"}}}',
        '{"added_tokens_decoder": {"' + "9" * 9999 + '": {"content": "<far>"}}}',
    ],
)
def test_an_odd_configuration_changes_nothing(tmp_path: Path, config: str) -> None:
    small.byte_level().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(config)
    encoder = load_encoder(ref(tmp_path))
    assert encoder.encode("hello") == small.byte_level().encode("hello").ids
    assert not {"<x>", "<far>"} & encoder.special_tokens()


# Without a tokenizer.json


def test_other_tokenizer_files_need_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\nhello\n")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(TargetError, match=r"transformers is not installed.*templatefix\[slow\]"):
        load_encoder(ref(tmp_path))


def test_files_that_transformers_cannot_read_are_a_bad_target(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(TargetError, match="transformers cannot read"):
        load_encoder(ref(tmp_path))


def test_no_code_of_a_model_directory_runs(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    trap = tmp_path / "trap"
    (tmp_path / "own.py").write_text(f"open({str(trap)!r}, 'w')\nclass Own: ...\n")
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}})
    )
    with pytest.raises(TargetError):
        load_encoder(ref(tmp_path))
    assert not trap.exists()


def test_a_vocabulary_of_words_is_read_by_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world")
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    encoder = load_encoder(ref(tmp_path))
    assert not encoder.approximate
    assert encoder.encode("hello world[SEP]\ud800x") == [5, 6, 3, 1]
    assert encoder.token_text(5) == "hello"
    assert encoder.token_id("[SEP]") == 3
    assert "[SEP]" in encoder.special_tokens()


# The shipped tokenizer


def test_special_tokens_of_a_template_are_single_tokens_without_its_tokenizer() -> None:
    literals = ["<|start_header_id|>user<|end_header_id|>\n\n", "[INST] ", "<start_of_turn>"]
    encoder = load_encoder(None, literals)
    assert encoder.approximate
    for token in ("<|start_header_id|>", "<|end_header_id|>", "[INST]", "<start_of_turn>"):
        assert len(encoder.encode(token)) == 1
        assert len(load_encoder(None).encode(token)) > 1


@pytest.mark.parametrize(
    ("literal", "tokens"),
    [
        ("<|im_start|>assistant\n<think>\n", ["<|im_start|>", "<think>"]),
        ("</think></s>", ["</think>", "</s>"]),
        ("<｜tool▁calls▁begin｜><｜User｜>", ["<｜tool▁calls▁begin｜>", "<｜User｜>"]),
        ('<|"|>x<|turn>y<turn|>', ['<|"|>', "<|turn>", "<turn|>"]),
        ("[gMASK]<sop>[/INST][|user|]", ["[gMASK]", "<sop>", "[/INST]", "[|user|]"]),
        ("]~b]ai\n[e~[", ["]~b]", "[e~["]),
        ("<seed:bos>", ["<seed:bos>"]),
        ("a[0] x<y and y>x, [sic] [A] <a href='x'> < b >", []),
    ],
)
def test_special_tokens_are_told_by_their_shape(literal: str, tokens: list[str]) -> None:
    assert special_token_shapes([literal, literal]) == tokens


# The shipped example


def test_the_example_is_consistent() -> None:
    directory = shipped_tokenizer().parent
    tokenizer = Tokenizer.from_file(str(shipped_tokenizer()))
    config = json.loads((directory / "tokenizer_config.json").read_text())
    assert "chat_template" not in config
    stops = json.loads((directory / "generation_config.json").read_text())["eos_token_id"]
    assert [tokenizer.id_to_token(stop) for stop in stops] == ["<|im_end|>", "<|endoftext|>"]
    assert config["eos_token"] == "<|im_end|>"
    assert tokenizer.token_to_id(config["pad_token"]) is not None
    template = (directory / "chat_template.jinja").read_text()
    shapes = set(special_token_shapes([template])) - {"<tools>", "</tools>"}
    assert shapes == {
        *("<|im_start|>", "<|im_end|>", "<think>", "</think>"),
        *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    }
    assert all(len(tokenizer.encode(shape).ids) == 1 for shape in shapes)


def test_the_tool_that_trains_the_tokenizer_makes_the_shipped_one(tmp_path: Path) -> None:
    tools = Path(__file__).parents[2] / "tools"
    if not tools.is_dir():
        pytest.skip("no tools/ here: not a checkout of the project")
    shutil.copytree(tools, tmp_path / "tools")
    sys.path.insert(0, str(tmp_path / "tools"))
    try:
        import train_example_tokenizer  # type: ignore[import-not-found, unused-ignore]
    finally:
        sys.path.remove(str(tmp_path / "tools"))
    trained = json.loads(train_example_tokenizer.train().to_str())
    shipped = json.loads(shipped_tokenizer().read_text("utf-8"))
    assert trained["added_tokens"] == shipped["added_tokens"]
    assert trained["model"]["vocab"] == shipped["model"]["vocab"]
