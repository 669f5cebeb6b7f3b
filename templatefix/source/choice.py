"""Which templates a model directory offers, as transformers 5 chooses them."""

from __future__ import annotations

import os
from dataclasses import replace

from templatefix.source.reading import Folder
from templatefix.source.stored import DEFAULT, StoredTemplate, named_texts, stored

CHAT_TEMPLATE = "chat_template.jinja"
ADDITIONAL = "additional_chat_templates"
TOKENIZER_CONFIG = "tokenizer_config.json"
PROCESSOR_TEMPLATE = "chat_template.json"
PROCESSOR_CONFIG = "processor_config.json"
# Any of these makes a directory a model directory.
MARKERS = (TOKENIZER_CONFIG, CHAT_TEMPLATE, PROCESSOR_TEMPLATE)
# The name under which a processor's template is listed beside the tokenizer's own.
PROCESSOR = "processor"


def is_model_directory(folder: Folder) -> bool:
    return any(folder.has(name) for name in MARKERS)


def model_templates(folder: Folder) -> list[StoredTemplate]:
    """Every template that a server could take from the directory, each text once.

    Files beat the entry in ``tokenizer_config.json``. A processor's template is listed with the
    tokenizer's, because a server takes the one or the other depending on the request.
    """
    found = _files(folder) or _config_entry(folder)
    known = {each.text for each in found}
    processor = [each for each in _processor(folder) if each.text not in known]
    if not found or not processor:
        return found or processor
    if len(processor) == 1:
        processor = [replace(processor[0], name=PROCESSOR)]
    return [replace(each, name=each.name or DEFAULT) for each in found] + processor


def _files(folder: Folder) -> list[StoredTemplate]:
    names = {}
    if folder.has(CHAT_TEMPLATE):
        names[DEFAULT] = CHAT_TEMPLATE
    for file in additional_files(folder):
        names[file.removesuffix(".jinja")] = f"{ADDITIONAL}/{file}"
    return [
        StoredTemplate(
            text=folder.text(file),
            name=None if list(names) == [DEFAULT] else name,
            display=folder.label(file),
            path=folder.path / file,
            format="jinja",
        )
        for name, file in names.items()
    ]


def additional_files(folder: Folder) -> list[str]:
    """File names in ``additional_chat_templates``, sorted."""
    try:
        entries = os.listdir(folder.path / ADDITIONAL)
    except OSError:
        return []
    return sorted(
        entry
        for entry in entries
        if entry.endswith(".jinja") and folder.has(f"{ADDITIONAL}/{entry}")
    )


def _config_entry(folder: Folder) -> list[StoredTemplate]:
    config = folder.json_object(TOKENIZER_CONFIG)
    place = folder.place(TOKENIZER_CONFIG)
    texts = named_texts(config.get("chat_template"), place)
    return stored(texts, place, folder.path / TOKENIZER_CONFIG, "tokenizer-config")


def _processor(folder: Folder) -> list[StoredTemplate]:
    """``processor_config.json`` beats ``chat_template.json``; both serve the processor only."""
    for name in (PROCESSOR_CONFIG, PROCESSOR_TEMPLATE):
        place = folder.place(name)
        texts = named_texts(folder.json_object(name).get("chat_template"), place)
        if texts:
            return stored(texts, place, folder.path / name, "chat-template-json")
    return []
