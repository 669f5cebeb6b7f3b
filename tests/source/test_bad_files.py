"""Whatever bytes a target holds, one clear ``TargetError`` comes out."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from templatefix.errors import TargetError
from templatefix.source import SourceOptions, load, load_each

PLAIN = SourceOptions()

BAD = {
    "empty.jinja": (b"", "is empty"),
    "utf16.jinja": ("{{ messages }}".encode("utf-16"), "UTF-16"),
    "latin1.jinja": ("{{ messages }}\né".encode("latin-1"), "byte 0xe9 in line 2"),
    "nul.jinja": (b"{{ messages }}\0", "NUL"),
    "cut.json": (b'{"chat_template": "{{', "is not JSON"),
    "array.json": (b"[]", "holds an array"),
    "number.json": (b"5", "holds a number"),
    "deep.json": (b'{"a":' + b"[" * 200_000, "nested too deeply"),
    "digits.json": (b'{"a": ' + b"9" * 5_000_000 + b"}", "enormous number"),
    "none.json": (b'{"eos_token": "x"}', "has no chat_template"),
    "kind.json": (b'{"chat_template": 5}', "chat_template is a number"),
    "list.json": (b'{"chat_template": ["x"]}', "chat_template is an array"),
    "entry.json": (b'{"chat_template": [{"name": "x"}]}', "without a name"),
    "blank.json": (b'{"chat_template": ""}', "chat_template is empty"),
    "surrogate.json": (b'{"chat_template": "\\ud800"}', "unpaired surrogate"),
    "not.gguf": (b"GGML" + bytes(100), "does not begin with GGUF"),
    "short.gguf": (b"GG", "ends in the middle"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_say_what_is_wrong_with_them(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TargetError) as caught:
        load(str(tmp_path / name), PLAIN)
    assert message in caught.value.message
    assert "\n" not in str(caught.value)
    assert caught.value.target == str(tmp_path / name)


@pytest.mark.parametrize("name", BAD)
def test_standard_input_is_no_worse(name: str) -> None:
    content, _ = BAD[name]
    found = list(load_each("-", PLAIN, io.BytesIO(content)))
    assert all(each.target == "-" for each in found)


@pytest.mark.parametrize(
    "beside",
    ["config.json", "generation_config.json", "special_tokens_map.json", "tokenizer_config.json"],
)
def test_a_broken_file_beside_the_template_is_named(tmp_path: Path, beside: str) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    (tmp_path / beside).write_text("{")
    with pytest.raises(TargetError) as caught:
        load(str(tmp_path), PLAIN)
    assert caught.value.message.startswith(f"{beside}: is not JSON")


def test_values_of_an_unexpected_kind_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    odd = {"eos_token": 5, "bos_token": {"content": None}, "extra_special_tokens": 3}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(odd))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": ["a", true, -1, 4]}')
    (tmp_path / "config.json").write_text('{"layer_types": 5, "sliding_window": "x"}')
    (template,) = load(str(tmp_path), PLAIN)
    assert template.special_tokens == {}
    assert template.stop_token_ids == (4,)
    assert template.attention is None


def test_a_byte_order_mark_and_duplicate_keys_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer_config.json"
    file.write_bytes(b'\xef\xbb\xbf{"chat_template": "a", "chat_template": "b\\r\\n"}')
    assert load(str(file), PLAIN)[0].text == "b\r\n"
    (tmp_path / "x.jinja").write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert load(str(tmp_path / "x.jinja"), PLAIN)[0].text == "a\r\nb"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("./absent", "no such file or directory"),
        ("absent/x.jinja", "no such file or directory"),
        ("absent.gguf", "no such file"),
        ("./" + "n" * 5000, "cannot be read"),
        ("./a\0b", "cannot be read"),
        ("/proc/self/mem", "cannot be read"),
        ("/dev/zero", "larger than"),
        ("/dev/null", "is empty"),
        ("a b", "not a hub id either"),
    ],
)
def test_paths_that_cannot_be_read(target: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        load(target, PLAIN)
    assert message in caught.value.message
    assert caught.value.target == target


def test_closed_standard_input_is_named() -> None:
    closed = io.BytesIO(b"")
    closed.close()
    for stream in (None, closed, io.BytesIO(b"")):
        with pytest.raises(TargetError):
            load("-", PLAIN, stream)


def test_pipes_are_read_when_named_and_never_opened_when_found(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jinja")
    (tmp_path / "x.jinja").write_text("x")
    assert [each.text for each in load(str(tmp_path), PLAIN)] == ["x"]
    writer = threading.Thread(target=(tmp_path / "pipe.jinja").write_text, args=("piped",))
    writer.start()
    assert load(str(tmp_path / "pipe.jinja"), PLAIN)[0].text == "piped"
    writer.join()


def test_a_large_file_storage_pointer_is_named(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (tmp_path / "tokenizer.json").write_text(pointer)
    with pytest.raises(TargetError) as caught:
        load(str(tmp_path), PLAIN)
    assert "git lfs pull" in caught.value.hint


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["chat_template", "name", "template", "x"]), inner
                )
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
        st.binary(max_size=60).map(lambda tail: b"GGUF\x03\0\0\0" + tail),
    ),
    name=st.sampled_from(["a.jinja", "tokenizer_config.json", "chat_template.json", "a.gguf", "a"]),
)
def test_any_bytes_under_any_name_end_in_templates_or_one_error(
    tmp_path: Path, content: bytes, name: str
) -> None:
    (tmp_path / name).write_bytes(content)
    for each in load_each(str(tmp_path / name), PLAIN):
        assert each.target == str(tmp_path / name)
    (tmp_path / name).unlink()
