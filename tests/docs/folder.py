"""A folder in which what the pages name is there: models on a hub, templates, logs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from templatefix.rules import RULES
from tests import packages
from tests.example import EXAMPLE
from tests.hub import Repository
from tests.source.test_gguf import write_gguf

#: Without thinking, this model writes its answer after a block that history does not have.
TEMPLATE = RULES["TF101"].bad
_ASKED = {"role": "user", "content": "Which city lies at the mouth of the Douro?"}
_SAID = {"role": "assistant", "content": "Porto."}
_FOLLOW_UP = [_ASKED, _SAID, {"role": "user", "content": "And the Tagus?"}]


def files() -> dict[str, bytes]:
    """A model that is small enough to be checked for every line of a page."""
    tokenizer = (EXAMPLE / "tokenizer.json").read_bytes()
    config = (EXAMPLE / "tokenizer_config.json").read_bytes()
    return {
        "chat_template.jinja": TEMPLATE.encode(),
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": config,
    }


def hub() -> dict[str, Repository]:
    """The ids that the pages name; what stands behind them is small and always the same."""
    return {"Qwen/Qwen3-8B": Repository(files())}


def fill(folder: Path) -> Path:
    """Make everything that commands of a page read."""
    for place in (
        folder / name for name in ("my-model", "models/one", "Qwen3-8B", "templatefix/example")
    ):
        place.mkdir(parents=True)
        for name, content in files().items():
            (place / name).write_bytes(content)
    for name in ("chat_template.jinja", "fixed.jinja", "published.jinja"):
        (folder / name).write_text(TEMPLATE, "utf-8")
    write_gguf(folder / "model.gguf", TEMPLATE)
    # What is found beyond the battery is not shown, and takes most of the time.
    (folder / "templatefix.toml").write_text("search = false\nrecover = false\n", "utf-8")
    conversation = json.dumps({"messages": _FOLLOW_UP})
    (folder / "conversation.json").write_text(conversation, "utf-8")
    requests = ({"messages": [_ASKED]}, {"messages": _FOLLOW_UP})
    log = "".join(json.dumps(each) + "\n" for each in requests)
    (folder / "traffic.jsonl").write_text(log, "utf-8")
    return folder


def with_qwen3(folder: Path) -> Path:
    """Put Qwen3's own template and tokenizer there. Raises ``packages.Unavailable``."""
    template = packages.qwen3_template()
    shutil.copytree(packages.qwen3_tokenizer(), folder / "Qwen3-8B")
    (folder / "Qwen3-8B" / "chat_template.jinja").write_text(template, "utf-8")
    return folder
