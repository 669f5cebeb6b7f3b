"""Paths, hub ids, GGUF and configuration files in; ``ChatTemplate`` values out."""

from templatefix.source.load import NoTemplate, load, load_bare, load_each
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
]
