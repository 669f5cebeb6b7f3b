"""What ``--chat-template`` and ``--tokenizer`` put in the place of a target's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from templatefix.errors import TargetError
from templatefix.source.options import STDIN, SourceOptions, is_local
from templatefix.source.reading import is_directory, is_file, local_folder
from templatefix.source.single import file_templates
from templatefix.source.stored import StoredTemplate
from templatefix.source.surroundings import Surroundings, read_surroundings
from templatefix.source.template import TokenizerRef

_HINT = "give a directory with tokenizer.json, such a file, or a hub id"


def override_template(path: str) -> list[StoredTemplate]:
    """The templates in the file that ``--chat-template`` names."""
    templates, _ = file_templates(Path(path), path)
    if not templates:
        raise TargetError(path, "holds no chat template", "give a file that holds one")
    return templates


def override_tokenizer(named: str, options: SourceOptions) -> Surroundings:
    """The tokenizer that ``--tokenizer`` names, with the special tokens beside it."""
    path = Path(named)
    if named == STDIN:
        raise TargetError(named, "a tokenizer is not read from standard input", _HINT)
    if not is_local(named):
        from templatefix.source.hub import snapshot

        # A revision belongs to the target's repository.
        shot = snapshot(named, replace(options, revision=None), tokenizer_only=True)
        found = read_surroundings(shot.folder, shot.tokenizer_source)
    elif is_directory(path):
        found = read_surroundings(local_folder(named, path))
    elif is_file(path):
        beside = read_surroundings(local_folder(named, path.parent))
        found = replace(beside, tokenizer=TokenizerRef(named, path.parent, path))
    else:
        raise TargetError(named, "no such file or directory", _HINT)
    if found.tokenizer is None:
        raise TargetError(named, "holds no tokenizer", _HINT)
    return found


def overridden(own: Surroundings, given: Surroundings) -> Surroundings:
    """The target's surroundings with another tokenizer.

    Special tokens come with the tokenizer; stop tokens and attention belong to the model.
    """
    return replace(
        own,
        special_tokens={**own.special_tokens, **given.special_tokens},
        stop_token_ids=own.stop_token_ids or given.stop_token_ids,
        tokenizer=given.tokenizer,
    )
