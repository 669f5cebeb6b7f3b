"""Paths, hub ids, GGUF and configuration files in; ``ChatTemplate`` values out."""

from templatefix.source.load import load, load_each
from templatefix.source.options import SourceOptions, is_local
from templatefix.source.template import ChatTemplate, TokenizerRef

__all__ = ["ChatTemplate", "SourceOptions", "TokenizerRef", "is_local", "load", "load_each"]
