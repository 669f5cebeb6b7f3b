"""Paths, hub ids, GGUF and configuration files in; ``ChatTemplate`` values out."""

from templatefix.source.load import (
    NoTemplate,
    load,
    load_bare,
    load_each,
    load_hub_client,
    load_part,
    no_template,
    parts,
)
from templatefix.source.options import SourceOptions, is_local
from templatefix.source.template import ChatTemplate, TokenizerRef

__all__ = [
    "ChatTemplate",
    "NoTemplate",
    "SourceOptions",
    "TokenizerRef",
    "is_local",
    "load",
    "load_bare",
    "load_each",
    "load_hub_client",
    "load_part",
    "no_template",
    "parts",
]
