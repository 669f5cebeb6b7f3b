"""The corpus of real templates and tokenizers that lies beside the repository, where it does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Entry:
    """A real model's template, and its tokenizer's directory when there is one."""

    model_id: str
    family: str
    directory: Path
    template: Path
    tokenizer: Path | None
    stop_tokens: tuple[str, ...]
    has_reasoning: bool
    has_tools: bool

    @property
    def text(self) -> str:
        return self.template.read_text(encoding="utf-8")


def corpus_directory() -> Path | None:
    """``TEMPLATEFIX_CORPUS``, else ``../shared/corpus`` seen from the repository, else None."""
    named = os.environ.get("TEMPLATEFIX_CORPUS")
    directory = Path(named) if named else _ROOT.parent / "shared" / "corpus"
    return directory if (directory / "index.json").is_file() else None


def corpus_entries() -> Iterator[Entry]:
    """Every template of the corpus, in its index's order; none when the corpus is absent."""
    directory = corpus_directory()
    if directory is None:
        return
    tokenizers = json.loads((directory / "tokenizers.json").read_text(encoding="utf-8"))
    stops = {each["name"]: tuple(each["stop_tokens"]) for each in tokenizers}
    for entry in json.loads((directory / "index.json").read_text(encoding="utf-8")):
        name = entry["tokenizer"]
        yield Entry(
            model_id=entry["model_id"],
            family=entry["family"],
            directory=directory / entry["dir"],
            template=directory / entry["dir"] / "chat_template.jinja",
            tokenizer=directory / "tokenizers" / name if name else None,
            stop_tokens=stops.get(name, ()),
            has_reasoning=entry["has_reasoning"],
            has_tools=entry["has_tools"],
        )


def corpus_entry(model_id: str) -> Entry | None:
    """One model's entry, by its hub id."""
    return next((entry for entry in corpus_entries() if entry.model_id == model_id), None)


def family_tokenizer(family: str) -> Path | None:
    """The tokenizer of a family of models, whether or not one of them has a template."""
    found = (entry.tokenizer for entry in corpus_entries() if entry.family == family)
    return next((tokenizer for tokenizer in found if tokenizer is not None), None)
