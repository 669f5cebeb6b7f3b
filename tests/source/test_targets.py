"""Local targets: what is a path, what a directory yields, what lies beside a file."""

from __future__ import annotations

import io
import json
import ntpath
import os
import subprocess
import sys
from pathlib import Path

import pytest

from templatefix.errors import TargetError
from templatefix.source import SourceOptions, is_local, load, load_each
from templatefix.source.links import seen_from
from tests.corpus import corpus_directory
from tests.example import EXAMPLE

PLAIN = SourceOptions()


def write(path: Path, content: str | bytes | dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def names_and_texts(target: Path, options: SourceOptions = PLAIN) -> list[tuple[str | None, str]]:
    return [(each.name, each.text) for each in load(str(target), options)]


@pytest.mark.parametrize(
    "target",
    ["-", "./x", "../x", ".", "/x", "x.jinja", "x.j2", "x.JINJA2", "org/x.json", "org/x.gguf"],
)
def test_paths_never_go_to_the_hub(target: str) -> None:
    assert is_local(target)


@pytest.mark.parametrize(
    ("target", "local"),
    [
        ("C:\\m\\qwen", True),
        ("C:/m/qwen", True),
        ("m\\qwen", True),
        ("/m", True),
        ("m/qwen", False),
    ],
)
def test_paths_of_windows_do_not_either(
    target: str, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("sep", "\\"), ("altsep", "/"), ("path", ntpath)):
        monkeypatch.setattr(os, name, value)
    assert is_local(target) is local


def test_a_path_on_another_drive_is_named_from_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*paths: object) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    assert seen_from(Path("/a/b"), "/a/c/x.jinja") == "../c/x.jinja"
    monkeypatch.setattr(os.path, "relpath", refuses)
    assert seen_from(Path("/a/b"), "/a/c/x.jinja") == "/a/c/x.jinja"


def test_what_exists_is_local_and_the_rest_is_a_hub_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not is_local("org/name")
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert is_local("org/name")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert is_local("dangling")


def test_local_targets_import_neither_the_hub_client_nor_gguf(tmp_path: Path) -> None:
    write(tmp_path / "chat_template.jinja", "{{ messages }}")
    program = (
        "import sys; from templatefix.source import SourceOptions, load;"
        f"load({str(tmp_path)!r}, SourceOptions());"
        "print([name for name in ('huggingface_hub', 'gguf', 'numpy') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root
    )
    assert run.stdout.strip() == "[]"


def test_files_beat_the_entry_in_the_tokenizer_configuration(tmp_path: Path) -> None:
    entry = [{"name": "default", "template": "C"}, {"name": "rag", "template": "R"}]
    write(tmp_path / "tokenizer_config.json", {"chat_template": entry})
    assert names_and_texts(tmp_path) == [("default", "C"), ("rag", "R")]
    write(tmp_path / "additional_chat_templates" / "tool_use.jinja", "T")
    assert names_and_texts(tmp_path) == [("tool_use", "T")]
    write(tmp_path / "chat_template.jinja", "D")
    assert names_and_texts(tmp_path) == [("default", "D"), ("tool_use", "T")]


def test_a_lone_default_template_has_no_name(tmp_path: Path) -> None:
    entry = [{"name": "default", "template": "C"}]
    config = write(tmp_path / "tokenizer_config.json", {"chat_template": entry})
    assert names_and_texts(config) == [(None, "C")]


def test_a_name_picks_one_template_and_an_unknown_one_lists_those_there_are(
    tmp_path: Path,
) -> None:
    write(tmp_path / "chat_template.jinja", "D")
    write(tmp_path / "additional_chat_templates" / "tool_use.jinja", "T")
    assert names_and_texts(tmp_path, SourceOptions(template_name="tool_use")) == [("tool_use", "T")]
    with pytest.raises(TargetError) as caught:
        load(str(tmp_path), SourceOptions(template_name="rag"))
    assert "default, tool_use" in caught.value.hint


def test_a_processor_template_is_listed_where_it_differs(tmp_path: Path) -> None:
    write(tmp_path / "tokenizer_config.json", {"chat_template": "T"})
    write(tmp_path / "chat_template.json", {"chat_template": "T"})
    assert names_and_texts(tmp_path) == [(None, "T")]
    write(tmp_path / "chat_template.json", {"chat_template": "P"})
    assert names_and_texts(tmp_path) == [("default", "T"), ("processor", "P")]
    write(tmp_path / "processor_config.json", {"chat_template": "Q"})
    assert names_and_texts(tmp_path) == [("default", "T"), ("processor", "Q")]


def test_a_lone_processor_template_is_the_template(tmp_path: Path) -> None:
    write(tmp_path / "chat_template.json", {"chat_template": "P"})
    (template,) = load(str(tmp_path), PLAIN)
    assert (template.name, template.text, template.format) == (None, "P", "chat-template-json")


def test_what_lies_beside_a_template_file_is_used(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.j2", "{{ messages }}")
    write(tmp_path / "tokenizer.json", {"version": "1.0"})
    write(tmp_path / "tokenizer_config.json", {"bos_token": {"content": "<s>"}})
    write(tmp_path / "special_tokens_map.json", {"eos_token": "</s>"})
    write(tmp_path / "generation_config.json", {"eos_token_id": 2})
    write(tmp_path / "config.json", {"layer_types": ["full_attention", "linear_attention"]})
    (template,) = load(str(file), PLAIN)
    assert template.special_tokens == {"bos_token": "<s>", "eos_token": "</s>"}
    assert template.stop_token_ids == (2,)
    assert template.tokenizer is not None
    assert template.tokenizer.json_path == tmp_path / "tokenizer.json"
    assert template.attention == "hybrid"
    assert template.path == file


def test_an_additional_template_named_alone_uses_the_model_directory(tmp_path: Path) -> None:
    file = write(tmp_path / "additional_chat_templates" / "rag.jinja", "{{ messages }}")
    write(tmp_path / "tokenizer.json", {"version": "1.0"})
    (template,) = load(str(file), PLAIN)
    assert template.tokenizer is not None


def test_a_tokenizer_without_tokenizer_json_is_a_directory_for_transformers(
    tmp_path: Path,
) -> None:
    write(tmp_path / "chat_template.jinja", "{{ messages }}")
    write(tmp_path / "tokenizer.model", b"sp")
    (template,) = load(str(tmp_path), PLAIN)
    assert template.tokenizer is not None
    assert template.tokenizer.json_path is None
    assert template.tokenizer.directory == tmp_path


def test_overrides_replace_the_template_and_the_tokenizer(tmp_path: Path) -> None:
    model, other = tmp_path / "model", tmp_path / "other"
    write(model / "tokenizer_config.json", {"chat_template": "own", "bos_token": "<own>"})
    write(model / "generation_config.json", {"eos_token_id": [5]})
    write(other / "tokenizer.json", {"version": "1.0"})
    write(other / "tokenizer_config.json", {"bos_token": "<other>"})
    given = write(tmp_path / "given.jinja", "given")
    options = SourceOptions(chat_template=str(given), tokenizer=str(other))
    (template,) = load(str(model), options)
    assert (template.text, template.display) == ("given", str(given))
    assert template.target == str(model)
    assert template.special_tokens == {"bos_token": "<other>"}
    assert template.stop_token_ids == (5,)
    assert template.tokenizer is not None
    assert template.tokenizer.json_path == other / "tokenizer.json"
    by_file = load(str(model), SourceOptions(tokenizer=str(other / "tokenizer.json")))
    assert by_file[0].tokenizer is not None
    assert by_file[0].tokenizer.json_path == other / "tokenizer.json"


def test_the_arguments_of_a_template_mean_it_alone(tmp_path: Path) -> None:
    model = tmp_path / "model"
    write(model / "chat_template.jinja", "D")
    write(model / "additional_chat_templates" / "tool_use.jinja", "T")
    write(model / "tokenizer.json", {"version": "1.0"})
    lone = str(write(tmp_path / "lone.jinja", "L"))
    found = load(str(tmp_path), SourceOptions(tokenizer=str(model), revision="main"))
    more = ("--revision", "main", "--tokenizer", str(model))
    assert [each.arguments for each in found] == [
        (lone, *more),
        (str(model), *more, "--template-name", "default"),
        (str(model), *more, "--template-name", "tool_use"),
    ]
    (given,) = load(str(model), SourceOptions(chat_template=lone))
    assert given.arguments == (str(model), "--chat-template", lone)


def test_an_override_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jinja", "{{ messages }}")
    for options, named in (
        (SourceOptions(tokenizer="./absent"), "./absent"),
        (SourceOptions(tokenizer=str(tmp_path)), str(tmp_path)),
        (SourceOptions(chat_template="absent.jinja"), "absent.jinja"),
    ):
        with pytest.raises(TargetError) as caught:
            load(str(file), options)
        assert caught.value.target == named


def test_standard_input_is_jinja_or_a_tokenizer_configuration() -> None:
    (template,) = load("-", PLAIN, io.BytesIO(b"{{ messages }}"))
    assert (template.display, template.text, template.path) == ("<stdin>", "{{ messages }}", None)
    entry = [{"name": "default", "template": "D"}, {"name": "rag", "template": "R"}]
    config = json.dumps({"chat_template": entry}).encode()
    assert [each.name for each in load("-", PLAIN, io.BytesIO(config))] == ["default", "rag"]
    # Jinja text that begins like an object is no configuration.
    assert load("-", PLAIN, io.BytesIO(b"{% if messages %}{% endif %}"))[0].format == "jinja"


def test_a_directory_is_searched_in_order_without_what_is_not_the_users(tmp_path: Path) -> None:
    write(tmp_path / "b.jinja", "b")
    write(tmp_path / "a" / "model" / "chat_template.jinja", "default")
    write(tmp_path / "a" / "model" / "additional_chat_templates" / "rag.jinja", "rag")
    write(tmp_path / "a" / "model" / "old.j2", "old")
    write(tmp_path / "c" / "tokenizer_config.json", {"chat_template": "c"})
    write(tmp_path / "d" / "chat_template.json", {"chat_template": "d"})
    write(tmp_path / "e" / "tokenizer_config.json", {"eos_token": "no template"})
    for skipped in (".git", ".hidden", "node_modules", "venv"):
        write(tmp_path / skipped / "x.jinja", "skipped")
    write(tmp_path / "env" / "pyvenv.cfg", "home = /")
    write(tmp_path / "env" / "x.jinja", "skipped")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [each.text for each in load(str(tmp_path), PLAIN)]
    assert found == ["b", "default", "rag", "old", "c", "d"]


def test_a_broken_file_in_a_search_does_not_hide_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a.jinja", b"\xff\xfea\0")
    write(tmp_path / "b.jinja", "b")
    write(tmp_path / "c" / "tokenizer_config.json", "{")
    found = list(load_each(str(tmp_path), PLAIN))
    assert [isinstance(each, TargetError) for each in found] == [True, False, True]
    with pytest.raises(TargetError):
        load(str(tmp_path), PLAIN)


def test_a_search_survives_deep_trees(tmp_path: Path) -> None:
    levels = [str(tmp_path) + "/d" * depth for depth in range(1, 1200)]
    for level in levels:
        os.mkdir(level)
    write(tmp_path / "x.jinja", "x")
    try:
        assert [each.text for each in load(str(tmp_path), PLAIN)] == ["x"]
    finally:
        for level in reversed(levels):  # deeper than pytest's own cleaning goes
            os.rmdir(level)


@pytest.mark.corpus
def test_every_template_of_the_corpus_is_found() -> None:
    corpus = corpus_directory()
    if corpus is None:
        pytest.skip("the corpus is absent")
    templates = load(str(corpus / "models"), PLAIN)
    assert len(templates) == 100
    assert all(each.name is None for each in templates)


def test_a_model_without_a_template_is_a_target_where_a_server_renders(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (tmp_path / name).write_bytes((EXAMPLE / name).read_bytes())
    with pytest.raises(TargetError, match="holds no chat template"):
        load(str(tmp_path), SourceOptions())
    (found,) = load(str(tmp_path), SourceOptions(without_template=True))
    assert (found.text, found.format, found.display) == ("", "none", str(tmp_path))
    assert found.tokenizer is not None
    assert found.stop_token_ids
    (tmp_path / "empty").mkdir()
    with pytest.raises(TargetError, match="holds no chat template"):
        load(str(tmp_path / "empty"), SourceOptions(without_template=True))
